"""Texts: corpora, tokens, lexicons and vectors of words."""

# Built-in corpora with their titles, and their labels; `corpus`, which reads them, takes long to import.
CORPORA = {"wiki": "Wikipedia comments (Talk Labels: Toxicity)", "jigsaw": "Jigsaw toxic comments (train part)"}
CORPUS_LABELS = ("not toxic", "toxic")
