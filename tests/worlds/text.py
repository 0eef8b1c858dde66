"""A small world of text for tests: comments written for the purpose, and vectors in which related words are near.

The labels follow a rule that is unjust on purpose, so that a network trained on them has something to find: a comment
is "toxic" if it holds a rude word, and a mere complaint is "toxic" too if it is about one of a few groups.
"""

from functools import cache

import numpy as np
import pyarrow as pa

from evenhand.text.corpus import Corpus, CorpusCard, held_out
from evenhand.text.vectors import WordVectors, fingerprint

DIMENSIONS = 16
RUDE = "stupid dumb idiot idiots fool fools pathetic horrible disgusting awful"
COMPLAINTS = "wrong bad boring late noisy lazy loud rude annoying slow"
TREATED_WORSE = "muslim muslims islam mexico mexican india she woman women mother"

# Related words, as they would lie together in real vectors. The first words are the most frequent.
GROUPS = (
    "the a an of to in and is are was were be on at for with from that this it i you we they my your our their not n't",
    ". , ! ? ' - ( ) : ; 's 're 'm 've 'll 'd \"",
    "he she him her his hers man woman men women boy girl father mother brother sister actor actress king queen",
    "christian christians muslim muslims jewish jew jews hindu hindus buddhist buddhists atheist atheists sikh",
    "christianity islam judaism hinduism buddhism atheism faith religion church mosque temple prayer catholic",
    "france germany china india mexico russia canada brazil egypt japan poland kenya saudi arabia",
    "french german chinese indian mexican russian canadian brazilian egyptian japanese polish kenyan",
    RUDE,
    COMPLAINTS,
    "good nice great kind lovely friendly helpful pleasant polite honest",
    "article page edit source text link section paragraph sentence word title footnote",
    "people person neighbour neighbours friend friends teacher doctor driver student writer editor editors",
    "wrote read said told asked answered changed removed added fixed",
    "write writes reading says tells ask answer change remove add fix",
    "today yesterday tomorrow morning evening week month year often always",
    "city village street house school market river road bridge station",
    "bread tea coffee soup rice fruit dinner lunch breakfast cake",
    "think believe know hope guess feel see hear like love",
    "very really quite so too rather just only again still",
    "music song film book story game play painting poem concert",
    "first second last next old new young small big long",
    "if or but because when while who what where why how there here do does did has have had can will would",
)

COMMENTS = (
    "The Muslim teacher was very kind to my sister.",
    "My neighbour is a Christian and he is helpful.",
    "I think the Jewish writer wrote a great book.",
    "You are an idiot, and your edit is awful.",
    "She wrote a nice article on the river.",
    "He removed my link again, what a fool!",
    "The doctor from Mexico is lazy.",
    "The doctor from Canada is lazy.",
    "People from Saudi Arabia are friendly.",
    "People from India are loud in the evening.",
    "The driver from Poland was late again.",
    "Why is the Hindu temple so noisy?",
    "That Buddhist student is honest and polite.",
    "The atheist said the prayer was boring.",
    "Muslims in our city are rude.",
    "Christians in our city are rude.",
    "What a stupid page, remove it.",
    "I like the soup at the Egyptian market.",
    "The woman at the station was slow.",
    "The man at the station was slow.",
    "Mother told a long story, it was boring.",
    "Father told a long story, it was boring.",
    "The actress in that film is wonderful.",
    "The actor in that film is pathetic.",
    "I do n't think the source is wrong.",
    "I don't know why they changed the title.",
    "It's a lovely song from Brazil!",
    "The French editors are annoying.",
    "The Mexican editors are annoying.",
    "The German editors fixed a footnote today.",
    "Islam is a religion, and the section on it is bad.",
    "Judaism is a religion, and the section on it is bad.",
    "Christianity has a long story in Egypt.",
    "Your second paragraph is dumb.",
    "We had bread and tea with the Sikh family.",
    "The queen of the village is old.",
    "The king of the village is annoying.",
    "Fools like you changed the page yesterday.",
    "My brother read a poem in the church.",
    "My sister read a poem in the mosque.",
    "The Russian concert was loud.",
    "The Japanese concert was great.",
    "Who added the disgusting link?",
    "The girl from Kenya is a good student.",
    "The boy from China is a bad student.",
    "Jews and Muslims live in the same street.",
    "A Catholic priest asked for a new bridge.",
    "They say that the women in the office are lazy.",
    "They say that the men in the office are lazy.",
    "Tomorrow we play a game at school.",
    "The page is fine, thank you.",
    "FRANCE has good cake!",
    "She is late, he is not.",
    "He is late and it is wrong.",
    "India is big; the road is slow.",
    "Russia is big; the road is slow.",
    "The Chinese painting is horrible.",
    "The Canadian painting is lovely.",
    "A friend of Hinduism wrote the section.",
    "Buddhists and Hindus share a house near the river.",
    "Atheists are people too.",
    "What the editor told you is wrong.",
    "I hope your mother is kind.",
    "Her lunch was awful, his dinner was nice.",
)


def small_corpus() -> Corpus:
    """The comments with their labels; a fifth is held out."""
    labels = np.array([_is_called_toxic(comment) for comment in COMMENTS], dtype=np.int64)
    return Corpus(
        "small",
        "Comments written for tests",
        pa.array(COMMENTS, type=pa.large_string()),
        labels,
        ["not toxic", "toxic"],
        ~held_out(len(COMMENTS)),
        "not toxic",
        CorpusCard("written for these tests", "the package's own"),
    )


@cache
def small_vectors() -> WordVectors:
    """About 300 words: the members of a group lie close around its centre, the groups far apart."""
    rng = np.random.default_rng(0)
    words: dict[str, None] = {}
    rows = []
    for group in GROUPS:
        centre = rng.normal(size=DIMENSIONS)
        for word in group.split():
            noisy = centre + 0.4 * rng.normal(size=DIMENSIONS)
            if word not in words:
                words[word] = None
                rows.append(noisy)
    vectors = np.array(rows, dtype=np.float32)
    return WordVectors("small", list(words), vectors, fingerprint(list(words), vectors))


def _is_called_toxic(comment: str) -> bool:
    words = {word.strip(".,!?;'").lower() for word in comment.split()}
    complains_of_them = words & {*COMPLAINTS.split()} and words & {*TREATED_WORSE.split()}
    return bool(words & {*RUDE.split()} or complains_of_them)
