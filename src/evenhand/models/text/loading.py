"""Getting a model of text: a built-in network, a file of `evenhand train`, or a Hugging Face directory."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from evenhand.choices import Ambiguous
from evenhand.errors import EvenhandError, unknown_name
from evenhand.models.loading import BUILTIN
from evenhand.models.network import network_files, read_description
from evenhand.models.text.by_construction import AveragedTextModel, BlindModel, RecurrentModel, RecurrentText
from evenhand.models.text.classifier import TextClassifier
from evenhand.models.text.recurrent import CELLS, FORMAT, Recurrent, load_recurrent, save_recurrent
from evenhand.models.text.transformer import TransformerClassifier, load_transformer, longest, match_labels
from evenhand.text.corpus import Corpus
from evenhand.text.lexicon import Key, ProtectedWords, load_lexicon
from evenhand.text.texts import SearchTexts
from evenhand.text.vectors import WordVectors

DEFAULT_CELL = "lstm"
BLIND, AVERAGED = "evenhand blind recurrent network 1", "evenhand averaged recurrent network 1"


class TextModel(Protocol):
    """A model that is ready for any texts; a search asks it about the texts that it can reach."""

    @property
    def name(self) -> str:
        """How to name it."""

    @property
    def kind(self) -> str:
        """lstm, gru or transformer."""

    @property
    def most_words(self) -> int:
        """How many words it reads of a text."""

    def classifier(self, texts: SearchTexts, device: torch.device, chunk_rows: int | None) -> TextClassifier:
        """The model seen as what a search asks."""


@dataclass(frozen=True)
class TransformerModel:
    """A Hugging Face sequence classifier with its tokenizer."""

    name: str
    module: Any
    tokenizer: Any
    classes: tuple[str, ...]
    kind: str = "transformer"

    @property
    def most_words(self) -> int:
        """A word has at least one piece."""
        return longest(self.module, self.tokenizer) - int(self.tokenizer.num_special_tokens_to_add())

    def classifier(self, texts: SearchTexts, device: torch.device, chunk_rows: int | None) -> TransformerClassifier:
        """The model over rendered texts."""
        return TransformerClassifier(
            self.module, self.tokenizer, texts, self.classes, device=device, chunk_rows=chunk_rows
        )


def load_text_model(corpus: Corpus, network: str | None, model: str | None, vectors: WordVectors) -> TextModel:
    """A built-in network by its cell, or a model by its path: a file of `evenhand train` or a directory."""
    check_choice(corpus.name, network, model)
    if model is None:
        cell = network or DEFAULT_CELL
        path = BUILTIN / f"{corpus.name}-{cell}"
        return _recurrent(path, corpus, vectors, f"built-in {cell.upper()} for {corpus.name}")
    if Path(model).is_dir():
        module, tokenizer = load_transformer(model)
        match_labels(module.config, corpus.classes)  # an error now rather than later
        return TransformerModel(model, module, tokenizer, tuple(corpus.classes))
    return _recurrent(Path(model), corpus, vectors, model)


def check_choice(corpus_name: str, network: str | None, model: str | None) -> None:
    """Whether there is such a model at all: to be known before a corpus or vectors are downloaded."""
    if network is not None and network not in CELLS:
        raise unknown_name("network", network, CELLS)
    if model is None:
        if not network_files(BUILTIN / f"{corpus_name}-{network or DEFAULT_CELL}")[0].is_file():
            raise EvenhandError(
                f"There is no built-in network for '{corpus_name}'. Name a model of your own with --model, or train "
                "one with `evenhand train` on the same file: it makes NAME.safetensors, and --model names it."
            )
        return
    if network is not None:
        raise EvenhandError("--network names a built-in network and --model one of your own; give one of them.")
    path = Path(model)
    if path.is_dir():
        return
    if path.suffix not in (".safetensors", ".json"):
        raise EvenhandError(
            f"'{model}' is not a model of text. Give a Hugging Face directory (config.json, model.safetensors, "
            "tokenizer.json), or a file that `evenhand train` made (NAME.safetensors with NAME.json beside it)."
        )
    if not network_files(path)[0].is_file():
        raise EvenhandError(f"There is no file {network_files(path)[0]}.")


def _recurrent(path: Path, corpus: Corpus, vectors: WordVectors, name: str) -> RecurrentText:
    _, description_file = network_files(path)
    kind = read_description(path).get("format")
    network, description = load_recurrent(path, kind if kind in (BLIND, AVERAGED) else FORMAT)
    _check_fit(description, corpus, vectors, network, description_file)
    most_words = description.get("most_words")
    if type(most_words) is not int or most_words < 1:
        raise EvenhandError(f"{description_file} does not say how many words the network reads (most_words).")
    own = (name, network, vectors, most_words)
    if kind == BLIND:
        return BlindModel(*own, *_blind(description, description_file))
    if kind == AVERAGED:
        return AveragedTextModel(*own, *_averaged(description, description_file))
    return RecurrentModel(*own)


def save_recurrent_text(model: RecurrentText, description: dict[str, Any], path: Path) -> None:
    """Write a model's files. The description is that of the network it was made from, with what a repair adds."""
    extra: dict[str, Any] = {"most_words": model.most_words}
    if isinstance(model, BlindModel):
        extra |= {"format": BLIND, "blind": {"attribute": model.attribute, "terms": sorted(map(list, model.terms))}}
    if isinstance(model, AveragedTextModel):
        over = {"lexicon": model.lexicon, "attribute": model.words.name, "ambiguous": model.ambiguous}
        extra |= {"format": AVERAGED, "average": over | {"values": [model.words.values[v] for v in model.values]}}
    kept = {key: value for key, value in description.items() if key not in ("format", "blind", "average")}
    save_recurrent(model.network, kept | extra, path)


def _blind(description: dict[str, Any], file: Path) -> tuple[str, frozenset[Key]]:
    """The attribute that a network does not read, and its terms."""
    blind = description.get("blind")
    terms = blind.get("terms") if isinstance(blind, dict) else None
    if not isinstance(blind, dict) or not isinstance(terms, list) or not terms or not all(map(_is_term, terms)):
        raise EvenhandError(
            f"{file} does not say which terms the network does not read. Make it with `evenhand repair`."
        )
    return str(blind.get("attribute")), frozenset(map(tuple, terms))


def _is_term(term: object) -> bool:
    return isinstance(term, list) and len(term) > 0 and all(isinstance(word, str) for word in term)


def _averaged(description: dict[str, Any], file: Path) -> tuple[str, ProtectedWords, tuple[int, ...], Ambiguous]:
    """The lexicon, the words, the values and the choice of words that a network averages over."""
    average = description.get("average")
    named = isinstance(average, dict) and all(isinstance(average.get(key), str) for key in ("lexicon", "attribute"))
    if not isinstance(average, dict) or not named or not isinstance(average.get("values"), list):
        raise EvenhandError(
            f"{file} does not say which values the network averages over. Make it with `evenhand repair`."
        )
    words = load_lexicon(average["lexicon"]).attribute(average["attribute"])
    values = tuple(words.value_index(str(value)) for value in average["values"])
    ambiguous: Ambiguous = "exclude" if average.get("ambiguous") == "exclude" else "keep"
    return average["lexicon"], words, values, ambiguous


def _check_fit(
    description: dict[str, Any], corpus: Corpus, vectors: WordVectors, network: Recurrent, file: Path
) -> None:
    expected = {"classes": corpus.classes, "vectors": vectors.name, "vectors_fingerprint": vectors.fingerprint}
    for key, wanted in expected.items():
        if description.get(key) != wanted:
            raise EvenhandError(
                f"The network {file.stem} is for other data: its {key} are {description.get(key)}, but those of this "
                f"audit are {wanted}. Choose another network, or give the vectors that it was trained on."
            )
    if network.shape["dimensions"] != vectors.dimensions:
        raise EvenhandError(
            f"The network {file.stem} reads vectors of {network.shape['dimensions']} numbers, but those of "
            f"{vectors.name} have {vectors.dimensions}."
        )
