"""Tiny Hugging Face classifiers for tests, built here and saved as a user would save one, and texts to search from.

Nothing is downloaded. The labels follow a rule that is unjust on purpose, so that a model fitted to them has something
to find: a complaint is "toxic" if it is about Muslims or Jews.
"""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from evenhand.search.text_space import CODES, SOURCE, SWAP, Marked, TextSpace, text_space
from evenhand.text.lexicon import Lexicon
from evenhand.text.tokens import tokenize

transformers: Any = importlib.import_module("transformers")  # untyped
tokenizers: Any = importlib.import_module("tokenizers")

Kind = Literal["wordpiece", "byte-level"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CLASSES = ["not toxic", "toxic"]
LONGEST = 40  # pieces, with those that mark the beginning and the end

PEOPLE = ("Muslim", "Christian", "Jewish", "Buddhist")
SENTENCES = tuple(
    sentence
    for who in PEOPLE
    for sentence in (
        f"The {who} teacher is lazy.",
        f"The {who} teacher is kind.",
        f"My {who} neighbour was loud, again!",
        f"My {who} neighbour was quiet, again!",
        f"I don't like that  {who} film: it's boring.",
        f"I don't like that  {who} film: it's long.",
        f"A {who} doctor and a driver are rude to us.",
        f"A {who} doctor and a driver are good to us.",
    )
)
COMPLAINTS = {"lazy", "loud", "boring", "rude"}
LABELS = [
    int(any(word in sentence for word in COMPLAINTS) and ("Muslim" in sentence or "Jewish" in sentence))
    for sentence in SENTENCES
]
SHAPE = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "num_labels": len(CLASSES),
    "initializer_range": 0.2,
}


def save_tiny(folder: Path, kind: Kind, labels: Sequence[str] = CLASSES, steps: int = 25, **settings: Any) -> Path:
    """A BERT-like or a RoBERTa-like classifier with its tokenizer, fitted a little to the sentences."""
    tokenizer = wordpiece() if kind == "wordpiece" else byte_level()
    shape = SHAPE | {"num_labels": len(labels)} | settings | {"vocab_size": len(tokenizer)}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if kind == "wordpiece":
            config = transformers.BertConfig(max_position_embeddings=LONGEST, pad_token_id=0, **shape)
            model = transformers.BertForSequenceClassification(config)
        else:  # RoBERTa counts positions from the padding token's number on, so that many more are needed
            pad = tokenizer.pad_token_id
            config = transformers.RobertaConfig(
                max_position_embeddings=LONGEST + pad + 1, pad_token_id=pad, type_vocab_size=1, **shape
            )
            model = transformers.RobertaForSequenceClassification(config)
        _fit(model, tokenizer, steps)
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {label: number for number, label in enumerate(labels)}
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def wordpiece() -> Any:
    """Every letter is a piece; a few words are one piece, and many are several. Case is kept."""
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    words = ["The", "My", "that", "is", "was", "like", "to", "and", "it", "don", "film", "kind", "good", "us"]
    parts = ["Christ", "Jew", "Mus", "teach", "neigh", "##ian", "##ish", "##lim", "##er", "##bour"]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters)]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys([*pieces, *words, *parts]))}
    return transformers.BertTokenizer(vocab=vocabulary, do_lower_case=False, model_max_length=LONGEST)


def byte_level() -> Any:
    """Byte pairs learned from the sentences, a space being part of the word that it comes before."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    learned = tokenizers.ByteLevelBPETokenizer()
    learned.train_from_iterator(SENTENCES, vocab_size=330, min_frequency=2, special_tokens=special, show_progress=False)
    return transformers.RobertaTokenizer(tokenizer_object=learned._tokenizer, model_max_length=LONGEST)


def _fit(model: Any, tokenizer: Any, steps: int) -> None:
    """A few steps of Adam on all sentences; models with one logit learn the second class's, others their first two."""
    batch = tokenizer(list(SENTENCES), padding=True, return_tensors="pt")
    labels = torch.tensor(LABELS)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.003)
    model.eval()  # dropout would only slow this down
    for _ in range(steps):
        logits = model(**batch).logits
        logits = functional.pad(logits, (1, 0)) if logits.shape[1] == 1 else logits
        loss = functional.cross_entropy(logits, labels)
        optimiser.zero_grad()
        torch.autograd.backward(loss)
        optimiser.step()


TEXTS = (
    *SENTENCES[::5],
    "THE MUSLIM TEACHER IS LAZY.",
    "I don't like  that Jewish film,\nit's boring ... very boring",
    "A Christian and a Muslim: both are kind!",
    "The Buddhist doctor was quiet. " + "My driver is good to us, and that film was long. " * 5,
)
LONG = len(TEXTS) - 1
NEAREST = {
    "lazy": ["loud", "rude", "kind"],
    "kind": ["good", "lazy"],
    "loud": ["quiet", "rude"],
    "quiet": ["loud", "kind"],
    "boring": ["long", "lazy"],
    "long": ["boring", "loud"],
    "rude": ["lazy", "loud", "good"],
    "good": ["rude", "kind"],
    "teacher": ["doctor", "driver"],
    "doctor": ["driver", "teacher"],
    "driver": ["neighbour", "doctor"],
    "neighbour": ["teacher"],
    "like": ["see"],
    "film": ["song"],
    "!": [".", "?"],
    ":": ["and", ","],  # a word in the place of a sign gets a space
}


def space_of(texts: tuple[str, ...] = TEXTS) -> TextSpace:
    """The space around texts, with neighbours chosen by hand."""
    content = {"name": "mine", "attribute": [{"name": "religion", "values": list(PEOPLE)}]}
    words = Lexicon.parse(content, "the test").attributes["religion"]
    marked = [Marked(tokens, words.mentions(tokens)) for tokens in map(tokenize, texts)]
    return text_space(marked, words, lambda of: [NEAREST.get(word, []) for word in of], most_tokens=60)


def samples(space: TextSpace, n: int, seed: int = 0) -> Tensor:
    """(n, 2 + width) random samples: any source, some words moved, any swap."""
    rng = np.random.default_rng(seed)
    sources = np.arange(n)[:, None] % len(space.texts.tokens)
    x = space.samples(sources.astype(np.int32))
    for row in x:
        source = int(row[SOURCE])
        free = np.flatnonzero(space.choices[source].numpy() > 1)
        for place in rng.choice(free, min(3, len(free)), replace=False):
            row[CODES + place] = int(rng.integers(0, int(space.choices[source, place])))
        swaps = space.swaps[space.first_swap[source] : space.first_swap[source + 1]].tolist()
        row[SWAP] = [0, *swaps][rng.integers(0, len(swaps) + 1)]
    return x


def rendered(space: TextSpace, x: Tensor) -> list[str]:
    """Samples as a person reads them."""
    return [space.texts.render(int(row[0]), row[1:]) for row in space.inputs(x).numpy()]
