"""Texts: corpora, tokens, lexicons and vectors of words."""

CORPORA = ("wiki", "jigsaw")  # built in; `corpus`, which reads them, takes long to import
