"""Downloads through the real pip, from an index on this machine: whole and verified, or nothing at all."""

import hashlib
import http.server
import importlib.util
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from evenhand.errors import EvenhandError
from evenhand.files import writable_folder
from evenhand.text import download
from evenhand.text.download import DownloadError, Package, UnreachableError, cache_folder, fetch, read_member

FILE = "tiny_words-1.0-py3-none-any.whl"
PATIENCE = 120.0  # seconds; only a broken test waits so long


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a pip without the settings of the machine that the test runs on."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("EVENHAND_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel that carries a little data, known to the package under its checksum."""
    folder = tmp_path / "index"
    folder.mkdir()
    path = folder / FILE
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny_words/words.txt", b"hello")
        archive.writestr("tiny_words/noise.bin", random.Random(0).randbytes(400_000))
        information = "tiny_words-1.0.dist-info"
        archive.writestr(f"{information}/METADATA", "Metadata-Version: 2.1\nName: tiny-words\nVersion: 1.0\n")
        archive.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{information}/RECORD", "")
    monkeypatch.setitem(download.PACKAGES, "tiny-words", package_of(path))
    return path


def package_of(path: Path) -> Package:
    content = path.read_bytes()
    return Package("tiny-words", "1.0", hashlib.sha256(content).hexdigest(), len(content), "words for a test")


@pytest.fixture
def links(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pip find the wheel, without any network."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_package_is_downloaded_verified_and_then_served_offline(
    cache: Path, wheel: Path, links: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    assert fetch("tiny-words", lambda done, total: seen.append((done, total))) == cache / FILE
    assert (cache / FILE).read_bytes() == wheel.read_bytes()
    assert names(cache) == {FILE, f"{FILE}.verified"}
    size = wheel.stat().st_size
    assert seen[0] == (0, size)
    assert seen[-1] == (size, size)
    assert seen == sorted(seen)

    monkeypatch.delenv("PIP_FIND_LINKS")  # from here on nothing can be downloaded
    again: list[tuple[int, int]] = []
    assert fetch("tiny-words", lambda done, total: again.append((done, total))) == cache / FILE
    assert again == []
    assert read_member("tiny-words", "tiny_words/words.txt") == b"hello"


def test_a_verified_file_is_not_hashed_again(cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_by_hand(cache, wheel.read_bytes())
    fetch("tiny-words")
    monkeypatch.setattr(download, "_sha256", lambda path: pytest.fail(f"{path} was hashed again"))
    assert fetch("tiny-words") == cache / FILE


def put_by_hand(cache: Path, content: bytes) -> None:
    cache.mkdir(exist_ok=True)
    (cache / FILE).write_bytes(content)


def test_a_file_put_there_by_hand_is_taken(cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert not download.is_cached("tiny-words")
    put_by_hand(cache, wheel.read_bytes())
    assert fetch("tiny-words") == cache / FILE
    assert download.is_cached("tiny-words")


def test_a_corrupt_cache_is_repaired(cache: Path, wheel: Path, links: None) -> None:
    put_by_hand(cache, wheel.read_bytes())
    fetch("tiny-words")
    damaged = bytearray(wheel.read_bytes())
    damaged[1000] ^= 1  # the same length, so only the time and the content tell
    before = (cache / FILE).stat().st_mtime_ns
    put_by_hand(cache, bytes(damaged))
    os.utime(cache / FILE, ns=(before + 10**9,) * 2)  # a file system's clock may be too coarse for two quick writes
    assert fetch("tiny-words").read_bytes() == wheel.read_bytes()


def test_a_wrong_checksum_leaves_nothing(cache: Path, wheel: Path, links: None) -> None:
    expected = download.PACKAGES["tiny-words"].sha256
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tiny_words/more.txt", "not what was agreed")
    with pytest.raises(DownloadError, match=f"expected sha256 {expected}, got {package_of(wheel).sha256}"):
        fetch("tiny-words")
    assert names(cache) == set()


def test_without_network_the_error_says_what_was_wanted_and_where(
    cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    put_by_hand(cache, b"half a wheel")
    with pytest.raises(UnreachableError) as caught:
        fetch("tiny-words")
    message = str(caught.value)
    for part in (
        "tiny-words==1.0",
        "words for a test",
        "1 MB",
        "pip said",
        str(cache / FILE),
        "had another checksum",
        "by hand",
    ):
        assert part in message
    assert "\n" not in message
    assert names(cache) == set()


def test_a_refused_connection_is_told_from_a_package_that_is_not_there(
    cache: Path, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_RETRIES", "1")
    with socket.socket() as taken:  # bound but not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{taken.getsockname()[1]}/simple")
        with pytest.raises(UnreachableError, match=r"pip could not connect: .*refused"):
            fetch("tiny-words")
    (tmp_path / "simple" / "tiny-words").mkdir(parents=True)
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "simple").as_uri())
    with pytest.raises(DownloadError, match=r"pip said: .*tiny-words") as caught:
        fetch("tiny-words")
    assert not isinstance(caught.value, UnreachableError)


def test_without_pip_the_error_says_how_to_get_it(cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EvenhandError, match="Install pip or the text extra"):
        fetch("tiny-words")
    assert names(cache) == set()


def test_an_unknown_package_is_an_error() -> None:
    with pytest.raises(EvenhandError, match="Did you mean 'aif360'"):
        fetch("aif36")


class Index:
    """An index that stops in the middle of the file, and notices when the client goes away."""

    def __init__(self, wheel: Path) -> None:
        self.sent_half = threading.Event()
        self.client_gone = threading.Event()
        index = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = wheel.read_bytes() if self.path.endswith(".whl") else f"<a href='/{FILE}'>{FILE}</a>".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if not self.path.endswith(".whl"):
                    self.wfile.write(content)
                    return
                # A client that goes with bytes unread resets the connection; it may go before all of the half is sent.
                with suppress(ConnectionError):
                    self.wfile.write(content[: len(content) // 2])
                    self.wfile.flush()
                    index.sent_half.set()
                    self.connection.settimeout(PATIENCE)
                    if self.connection.recv(1) != b"":
                        return
                index.client_gone.set()

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/simple"


@contextmanager
def stalling_index(wheel: Path) -> Iterator[Index]:
    index = Index(wheel)
    thread = threading.Thread(target=index.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield index
    finally:
        index.server.shutdown()
        thread.join()
        index.server.server_close()


def fetching_process(wheel: Path) -> "subprocess.Popen[str]":
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # ignored in background jobs
    code += f"from evenhand.text import download as d; d.PACKAGES['tiny-words'] = d.{package_of(wheel)!r}; "
    code += "print(d.fetch('tiny-words'))"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_an_interrupted_download_leaves_nothing_and_ends_pip(
    cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stalling_index(wheel) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.address)
        with fetching_process(wheel) as process:
            assert index.sent_half.wait(PATIENCE)
            assert any(name.startswith(".download-") for name in names(cache))
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=PATIENCE)
        assert "KeyboardInterrupt" in said
        assert index.client_gone.wait(PATIENCE)
    assert names(cache) == set()


def test_progress_grows_while_the_file_does(cache: Path, wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = wheel.stat().st_size
    started = time.monotonic()

    def stop_in_the_middle(done: int, total: int) -> None:
        assert total == size
        assert time.monotonic() - started < PATIENCE, f"no progress was reported beyond {done} bytes"
        if total // 4 < done < total:
            raise KeyboardInterrupt

    with stalling_index(wheel) as index:
        monkeypatch.setenv("PIP_INDEX_URL", index.address)
        with pytest.raises(KeyboardInterrupt):
            fetch("tiny-words", stop_in_the_middle)
        assert index.client_gone.wait(PATIENCE)
    assert names(cache) == set()


def test_two_processes_at_once_do_not_break_each_other(cache: Path, wheel: Path, links: None) -> None:
    both = [fetching_process(wheel) for _ in range(2)]
    for process in both:
        out, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out.strip()) == (0, str(cache / FILE)), said
    assert names(cache) == {FILE, f"{FILE}.verified"}
    assert (cache / FILE).read_bytes() == wheel.read_bytes()


def test_what_killed_processes_left_is_removed(cache: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with download._temporary_folder(writable_folder(cache)) as temporary:
        in_use = temporary.name
    left = in_use.replace(f"-{os.getpid()}-", f"-{gone.pid}-")
    elsewhere, old_elsewhere = f".download-elsewhere-{gone.pid}-x", f".download-elsewhere-{gone.pid}-y"
    for name in (left, in_use, elsewhere, old_elsewhere):
        (cache / name / "unpacking").mkdir(parents=True)
    for path in (cache / old_elsewhere / "unpacking", cache / old_elsewhere):
        os.utime(path, (time.time() - 7200,) * 2)
    download._remove_leftovers(cache)
    assert names(cache) == {in_use, elsewhere}


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"EVENHAND_CACHE": "/somewhere"}, "/somewhere"),
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/evenhand"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/people/me/.cache/evenhand"),
        ("linux", {"EVENHAND_CACHE": ""}, "/people/me/.cache/evenhand"),
        ("darwin", {"XDG_CACHE_HOME": "/xdg"}, "/people/me/Library/Caches/evenhand"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/evenhand/Cache"),
    ],
)
def test_the_cache_lies_where_the_platform_keeps_caches(
    platform: str, variables: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EVENHAND_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (variables | {"HOME": "/people/me"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == Path(expected)
