"""A model of texts as a zip: a Hugging Face directory, or a network of `evenhand train` with its word vectors.

Everything about an archive is found out from its list of files before any of them is unpacked. Neither is done in the
server: a list can be long, and a file that seems small can be large.
"""

import shutil
import stat
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from evenhand.errors import EvenhandError
from evenhand.files import cannot_write
from evenhand.service.storage.uploads import LONGEST_DESCRIPTION, check_description, size_text

SUFFIXES = (".safetensors", ".json", ".txt", ".vec")
VECTORS = "vectors"  # how the file is called beside a Hugging Face model; a network's description names its own
MOST_FILES = 100
MOST_RATIO = 100  # an archive unpacks to at most so many times its size
IGNORED = ("__MACOSX", ".DS_Store", "Thumbs.db")  # what systems put into archives by themselves
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
BAD_ZIP = (zipfile.BadZipFile, zlib.error, ValueError, NotImplementedError, RuntimeError, EOFError)


@dataclass(frozen=True)
class ModelArchive:
    """A zip whose list of files was checked."""

    path: Path
    members: dict[str, zipfile.ZipInfo]  # by their plain names
    network: str | None  # NAME.safetensors of a recurrent network; None: a Hugging Face directory
    vectors: str | None  # the file of word vectors; None: there is none in it

    def unpack(self, folder: Path) -> None:
        """Write all files into a folder, which is made."""
        folder.mkdir()
        try:
            with zipfile.ZipFile(self.path) as archive:
                for name, member in self.members.items():
                    with archive.open(member) as source, (folder / name).open("xb") as target:
                        shutil.copyfileobj(source, target, 1 << 20)
        except BAD_ZIP as error:
            raise EvenhandError(f"The zip with the model is damaged: {error}. Upload it again.") from error
        except OSError as error:
            raise cannot_write(folder, error) from error


def open_archive(path: Path, most: int | None = None) -> ModelArchive:
    """Check an archive, which may unpack to `most` bytes; an error says which file is wrong and why."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = _named(_listed(archive.infolist()))
            _check_sizes(members, path.stat().st_size, most)
            described = _description(archive, members)
    except (*BAD_ZIP, OSError) as error:
        raise EvenhandError(f"The file is not a sound .zip: {error}.") from error
    if described is None:
        _check_directory(members)
        return ModelArchive(path, members, None, _vectors(members, VECTORS))
    network, vectors = described
    found = _vectors(members, vectors)
    if found is None and vectors != "glove":
        raise EvenhandError(
            f"The network was trained on the word vectors '{vectors}'. Put {vectors}.txt into the zip too."
        )
    return ModelArchive(path, members, network, found)


def _listed(members: list[zipfile.ZipInfo]) -> list[zipfile.ZipInfo]:
    """The files that matter, each of an allowed kind."""
    files = [one for one in members if not one.is_dir() and not {*PurePosixPath(one.filename).parts} & {*IGNORED}]
    if len(files) > MOST_FILES:
        raise EvenhandError(f"The zip holds {len(files):,} files; a model has at most {MOST_FILES}.")
    for one in files:
        shown = "".join(letter if letter.isprintable() else "?" for letter in one.filename[-80:])
        kind = stat.S_IFMT(one.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise EvenhandError(f"'{shown}' in the zip is not a plain file but a link or a device. Leave it out.")
        if not _is_plain(one.filename):
            raise EvenhandError(f"'{shown}' in the zip names a place outside of it. Use plain names of files.")
        if PurePosixPath(one.filename).suffix not in SUFFIXES:
            raise EvenhandError(
                f"'{shown}' in the zip is not accepted: only {', '.join(SUFFIXES)} are, which hold no code. Save the "
                "model with save_pretrained(folder, safe_serialization=True), or leave the file out."
            )
        if one.flag_bits & 1 or one.compress_type not in METHODS:
            raise EvenhandError(f"'{shown}' in the zip is encrypted or packed in an unusual way. Make a plain zip.")
    return files


def _is_plain(name: str) -> bool:
    parts = name.split("/")
    return name.isprintable() and not any(mark in name for mark in "\\:") and not {*parts} & {"", ".", ".."}


def _named(files: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """The files by their names, without the folder that they may all be in."""
    folders = {str(PurePosixPath(one.filename).parent) for one in files}
    if len(folders) > 1 or any("/" in folder for folder in folders):
        raise EvenhandError("The files of the model lie in several folders of the zip. Put all of them into one.")
    names = {PurePosixPath(one.filename).name: one for one in files}
    if len({name.lower() for name in names}) < len(files):
        raise EvenhandError("Two files in the zip have the same name.")
    return names


def _check_sizes(members: dict[str, zipfile.ZipInfo], size: int, most: int | None) -> None:
    unpacked = sum(one.file_size for one in members.values())
    if unpacked > MOST_RATIO * size or (most is not None and unpacked > most):
        raise EvenhandError(f"The zip unpacks to {size_text(unpacked)}, which is more than is accepted.")


def _description(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]) -> tuple[str, str] | None:
    """The weights and the vectors of a recurrent network, from its description; None where there is none."""
    if "config.json" in members:
        return None
    weights = [name for name in members if name.endswith(".safetensors")]
    beside = f"{weights[0].removesuffix('.safetensors')}.json" if len(weights) == 1 else ""
    if beside not in members:
        raise EvenhandError(
            "The zip holds no model of texts. Put a Hugging Face directory into it (config.json, model.safetensors, "
            "tokenizer.json), or NAME.safetensors and NAME.json of `evenhand train` with the word vectors."
        )
    with archive.open(members[beside]) as stream:
        described = check_description(stream.read(LONGEST_DESCRIPTION + 1))
    return weights[0], str(described.get("vectors"))


def _check_directory(members: dict[str, zipfile.ZipInfo]) -> None:
    if "tokenizer.json" not in members or not any(name.endswith(".safetensors") for name in members):
        raise EvenhandError(
            "The Hugging Face directory in the zip is not complete: it has config.json, model.safetensors and "
            "tokenizer.json."
        )


def _vectors(members: dict[str, zipfile.ZipInfo], name: str) -> str | None:
    return next((f"{name}{suffix}" for suffix in (".txt", ".vec") if f"{name}{suffix}" in members), None)
