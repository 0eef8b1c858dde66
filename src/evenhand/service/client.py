"""A client of the service's HTTP interface.

from evenhand.service.client import Client

service = Client("http://127.0.0.1:8321")  # with accounts: Client(url, token=os.environ["EVENHAND_TOKEN"])
run = service.audit("census", protected=["sex"], seeds=100)
run = service.wait(run.id, on_event=lambda event: print(event.kind))
for finding in service.findings(run.id, sort="gap"):
    print(finding.gap, finding.sample, finding.witness)
"""

import json
import ssl
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx

from evenhand.errors import EvenhandError
from evenhand.files import replacing

ARCHIVED = (".safetensors", ".json", ".txt", ".vec")  # what goes along of a model's folder
OVER = ("done", "failed", "cancelled")
RENEW = 'Make a token on the page of your account and hand it over: Client(url, token="evh_…").'
Content = TypeVar("Content")


class ServiceError(EvenhandError):
    """The service refused a request: `status` is that of HTTP, `what` the kind of error."""

    def __init__(self, status: int, what: str, message: str) -> None:
        super().__init__(message)
        self.status, self.what = status, what


@dataclass(frozen=True)
class RemoteDataset:
    """A table, or texts, that the service has."""

    id: str
    name: str
    size: int
    sha256: str
    rows: int | None
    domain: str
    has_schema: bool
    created: datetime


@dataclass(frozen=True)
class RemoteModel:
    """A model that the service has."""

    id: str
    name: str
    size: int
    sha256: str
    is_described: bool
    created: datetime


@dataclass(frozen=True)
class RemoteRun:
    """A run as it was when it was asked about."""

    id: str
    kind: str
    title: str
    state: str
    config: dict[str, Any]
    parent: str | None
    progress: dict[str, Any]
    result: dict[str, Any] | None
    error: str | None
    created: datetime
    started: datetime | None
    finished: datetime | None

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.state in OVER


@dataclass(frozen=True)
class RemoteEvent:
    """Something that happened to a run."""

    id: int
    at: datetime
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class RemotePair:
    """What pairs of a table and of texts have in common: they get two labels."""

    row: int
    phase: str
    seed_row: int | None
    step: int
    label: str
    witness_label: str
    score: float
    witness_score: float
    gap: float


@dataclass(frozen=True)
class RemoteFinding(RemotePair):
    """A pair that differs in protected attributes only."""

    sample: dict[str, str]
    witness: dict[str, str]


@dataclass(frozen=True)
class RemoteTextFinding(RemotePair):
    """Two texts that differ in protected words only, and how far they are from the original."""

    original: str
    text: str
    witness: str
    value: str
    witness_value: str
    l0: int
    l2: float
    jaccard: float
    bleu: float
    similarity: float | None


class Client:
    """Asks a service. `token` is for services with accounts; it works in one project, which requests are about."""

    def __init__(self, url: str = "http://127.0.0.1:8321", token: str | None = None, timeout: float = 60.0) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise EvenhandError(f"'{url}' is not the address of a service: it begins with http:// or https://.")
        if token is not None and not (token.strip().isascii() and token.strip().isprintable() and token.strip()):
            raise EvenhandError("The token is empty or has characters that no token has. It begins with evh_.")
        self.url, self.timeout = url.rstrip("/"), timeout
        self._token = None if token is None else token.strip()  # files and variables end with a line end

    def add_dataset(self, path: str | Path, name: str | None = None) -> RemoteDataset:
        """Send a table: .csv, .csv.gz or .parquet."""
        return _read(RemoteDataset, self._send("datasets", Path(path), name))

    def add_texts(
        self,
        path: str | Path,
        text: str = "text",
        label: str = "label",
        *,
        split: str | None = None,
        favourable: str | None = None,
        name: str | None = None,
    ) -> RemoteDataset:
        """Send texts, each with one of two labels: .csv, .tsv, .parquet or .jsonl, and say which columns are which."""
        known_as = self._send("datasets", Path(path), name, domain="text")["id"]
        try:
            self.set_columns(known_as, text, label, split=split, favourable=favourable)
        except ServiceError:
            self.delete_dataset(known_as)
            raise
        return self.dataset(known_as)

    def set_columns(
        self, dataset_id: str, text: str, label: str, *, split: str | None = None, favourable: str | None = None
    ) -> dict[str, Any]:
        """Say which columns of texts are which; returns what the file holds."""
        body = {"text": text, "label": label, "split": split, "favourable": favourable}
        return self._ask("PUT", f"datasets/{_part(dataset_id)}/columns", body)

    def columns(self, dataset_id: str) -> dict[str, Any]:
        """Which columns of texts are which, and what the file holds."""
        return self._ask("GET", f"datasets/{_part(dataset_id)}/columns")

    def datasets(self) -> Iterator[RemoteDataset]:
        """All tables and texts, the newest first."""
        return (_read(RemoteDataset, entry) for entry in self._pages("datasets"))

    def dataset(self, dataset_id: str) -> RemoteDataset:
        """One of them."""
        return _read(RemoteDataset, self._ask("GET", f"datasets/{_part(dataset_id)}"))

    def delete_dataset(self, dataset_id: str) -> None:
        """Delete a table or texts, and the file."""
        self._ask("DELETE", f"datasets/{_part(dataset_id)}")

    def infer_schema(self, dataset_id: str, label: str, protected: list[str] | None = None, **options: Any) -> str:
        """What the columns seem to mean, as TOML to be corrected; the service keeps it."""
        body = {"label": label, "protected": protected, **options}
        return str(self._ask("POST", f"datasets/{_part(dataset_id)}/schema/infer", body)["text"])

    def schema(self, dataset_id: str) -> str:
        """What the columns mean, as TOML."""
        return str(self._ask("GET", f"datasets/{_part(dataset_id)}/schema")["text"])

    def set_schema(self, dataset_id: str, text: str) -> dict[str, str]:
        """Say what the columns mean; returns how the schema fits the table."""
        return dict(self._ask("PUT", f"datasets/{_part(dataset_id)}/schema", {"text": text})["facts"])

    def add_model(self, path: str | Path, name: str | None = None) -> RemoteModel:
        """Send a model; of a .safetensors file also the .json beside it.

        A model of texts may be a Hugging Face directory, which is zipped on the way, or a .zip: of such a directory,
        or of a network of `evenhand train` with its word vectors.
        """
        path = Path(path)
        if path.is_dir():
            return self._add_directory(path, name)
        model = _read(RemoteModel, self._send("models", path, name))
        beside = path.with_suffix(".json")
        if path.suffix != ".safetensors" or not beside.is_file():
            return model
        return _read(
            RemoteModel, self._ask("PUT", f"models/{model.id}/description", json.loads(beside.read_text("utf-8")))
        )

    def _add_directory(self, folder: Path, name: str | None) -> RemoteModel:
        """A model's folder as a zip of what the service takes."""
        with tempfile.TemporaryDirectory() as temporary:
            archive = Path(temporary) / f"{folder.resolve().name}.zip"
            with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as stream:
                for path in sorted(folder.iterdir()):
                    if path.suffix in ARCHIVED and path.is_file():
                        stream.write(path, path.name)
            return _read(RemoteModel, self._send("models", archive, name))

    def models(self) -> Iterator[RemoteModel]:
        """All models, the newest first."""
        return (_read(RemoteModel, entry) for entry in self._pages("models"))

    def delete_model(self, model_id: str) -> None:
        """Delete a model and its files."""
        self._ask("DELETE", f"models/{_part(model_id)}")

    def audit(
        self, dataset: str, protected: list[str] | None = None, *, model: str | None = None, **more: Any
    ) -> RemoteRun:
        """Ask for an audit of data (an id or a built-in name) and a model (an id; None: the built-in one)."""
        return self.start("audit", dataset=dataset, model=model, protected=protected or [], **more)

    def start(self, kind: str, *, title: str | None = None, **request: Any) -> RemoteRun:
        """Ask for a run: audit, measure or repair, with the settings of its request."""
        return _read(RemoteRun, self._ask("POST", "runs", {"kind": kind, "title": title, "request": request}))

    def repair(self, run_id: str, by: list[str] | None = None, **wishes: Any) -> RemoteRun:
        """Ask for a repair of an audit's model."""
        return _read(RemoteRun, self._ask("POST", f"runs/{_part(run_id)}/repair", {"by": by or ["blind"], **wishes}))

    def measure(self, run_id: str, **wishes: Any) -> RemoteRun:
        """Ask how often an audit's model decides otherwise."""
        return _read(RemoteRun, self._ask("POST", f"runs/{_part(run_id)}/measure", wishes))

    def runs(self, state: str | None = None, kind: str | None = None) -> Iterator[RemoteRun]:
        """Runs, the newest first."""
        return (_read(RemoteRun, entry) for entry in self._pages("runs", state=state, kind=kind))

    def run(self, run_id: str) -> RemoteRun:
        """One run."""
        return _read(RemoteRun, self._ask("GET", f"runs/{_part(run_id)}"))

    def cancel(self, run_id: str) -> RemoteRun:
        """Cancel a run."""
        return _read(RemoteRun, self._ask("POST", f"runs/{_part(run_id)}/cancel", {}))

    def resume(self, run_id: str) -> RemoteRun:
        """Let a run that failed or was cancelled go on."""
        return _read(RemoteRun, self._ask("POST", f"runs/{_part(run_id)}/resume", {}))

    def delete(self, run_id: str) -> None:
        """Delete a run and its files."""
        self._ask("DELETE", f"runs/{_part(run_id)}")

    def compare(self, a: str, b: str) -> dict[str, Any]:
        """Two runs side by side."""
        return self._ask("GET", "compare", a=a, b=b)

    def events(self, run_id: str, after: int = 0) -> Iterator[RemoteEvent]:
        """What happened to a run until now, after the event with this number."""
        while entries := self._ask("GET", f"runs/{_part(run_id)}/events", after=after)["entries"]:
            yield from (_read(RemoteEvent, entry) for entry in entries)
            after = entries[-1]["id"]

    def wait(
        self,
        run_id: str,
        timeout: float | None = None,
        on_event: Callable[[RemoteEvent], None] = lambda event: None,
        every: float = 0.5,
    ) -> RemoteRun:
        """Wait until a run is over; events are handed on as they come."""
        end, seen = None if timeout is None else time.monotonic() + timeout, 0
        while True:
            run = self.run(run_id)  # first: what happened before it was over is among the events then
            for event in self.events(run_id, seen):
                on_event(event)
                seen = event.id
            if run.is_over:
                return run
            if end is not None and time.monotonic() >= end:
                raise EvenhandError(f"The run {run_id} is not over after {timeout:g} seconds: it is {run.state}.")
            time.sleep(every)

    def findings(
        self,
        run_id: str,
        *,
        values: dict[str, str] | None = None,
        label: str | None = None,
        phase: str | None = None,
        least_gap: float | None = None,
        sort: str = "order",
        page: int = 200,
    ) -> Iterator[RemoteFinding]:
        """The findings of an audit of a table, read page by page as they are used; `values` by attribute."""
        wanted = {
            "value": [f"{name}={value}" for name, value in (values or {}).items()], "label": label, "phase": phase,
            "least_gap": least_gap, "sort": sort, "limit": page,
        }  # fmt: skip
        return self._findings(RemoteFinding, run_id, wanted)

    def text_findings(
        self,
        run_id: str,
        *,
        value: str | None = None,
        witness_value: str | None = None,
        label: str | None = None,
        phase: str | None = None,
        least_gap: float | None = None,
        most_words: int | None = None,
        contains: str | None = None,
        sort: str = "order",
        page: int = 200,
    ) -> Iterator[RemoteTextFinding]:
        """The findings of an audit of texts, read page by page; `value` is what the text names."""
        wanted = {
            "text_value": value, "witness_value": witness_value, "label": label, "phase": phase,
            "least_gap": least_gap, "most_words": most_words, "contains": contains, "sort": sort, "limit": page,
        }  # fmt: skip
        return self._findings(RemoteTextFinding, run_id, wanted)

    def _findings(self, kind: type[Content], run_id: str, wanted: dict[str, Any]) -> Iterator[Content]:
        for entry in self._pages(f"runs/{_part(run_id)}/findings", **wanted):
            if ("sample" in entry) != (kind is RemoteFinding):
                raise EvenhandError(
                    "The run is about texts: use text_findings." if kind is RemoteFinding
                    else "The run is about a table: use findings."
                )  # fmt: skip
            yield _read(kind, entry)

    def files(self, run_id: str) -> dict[str, int]:
        """The files of a run and their sizes."""
        return {entry["name"]: entry["size"] for entry in self._ask("GET", f"runs/{_part(run_id)}/files")["entries"]}

    def download(self, run_id: str, name: str, to: str | Path) -> Path:
        """Save a file of a run, whole or not at all; `to` is a file, or a folder that is there."""
        to = Path(to)
        to = to / Path(name).name if to.is_dir() else to
        address = f"runs/{_part(run_id)}/files/{_part(name)}"
        with self._open("GET", address) as answer, replacing(to) as temporary, temporary.open("wb") as stream:
            try:
                for piece in answer.iter_raw():
                    stream.write(piece)
            except httpx.RemoteProtocolError as error:
                raise EvenhandError(f"The service ended before all of {name} had come. Try again.") from error
        return to

    def _pages(self, path: str, **query: Any) -> Iterator[dict[str, Any]]:
        after = None
        while True:
            page = self._ask("GET", path, **query, after=after)
            yield from page["entries"]
            after = page["next"]
            if after is None:
                return

    def _ask(self, method: str, path: str, body: Any = None, **query: Any) -> dict[str, Any]:
        sent = {} if body is None else {"json": body}
        with self._open(method, path, query, **sent) as answer:
            content = answer.read()
        read: dict[str, Any] = json.loads(content) if content else {}
        return read

    def _send(self, path: str, file: Path, name: str | None, **more: str) -> dict[str, Any]:
        try:
            stream = file.open("rb")
        except OSError as error:
            raise EvenhandError(f"Cannot read {file}: {error.strerror}.") from error
        query, headers = (
            {"name": name or file.name, "filename": file.name, **more},
            {"Content-Type": "application/octet-stream"},
        )
        with stream, self._open("POST", path, query, content=stream, headers=headers) as answer:
            read: dict[str, Any] = json.loads(answer.read())
        return read

    @contextmanager
    def _open(
        self, method: str, path: str, query: dict[str, Any] | None = None, *, headers: dict[str, str] | None = None,
        **sent: Any,
    ) -> Iterator[httpx.Response]:  # fmt: skip
        """The answer, of which the body is still to come."""
        given = {key: value for key, value in (query or {}).items() if value is not None}
        headers = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        # No redirects: one could take the token to another host. No proxy: none belongs between here and loopback.
        settings: dict[str, Any] = {"verify": self._context, "trust_env": False, "follow_redirects": False}
        address = f"{self.url}/api/v1/{path}"
        try:
            with (
                httpx.Client(timeout=self.timeout, **settings) as client,
                client.stream(method, address, params=given or None, headers=headers, **sent) as answer,
            ):
                if not answer.is_success:
                    answer.read()
                    raise _refused(answer, has_token=self._token is not None)
                yield answer
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            reason = str(error) or type(error).__name__
            raise EvenhandError(f"The service at {self.url} does not answer: {reason}.") from error

    @cached_property
    def _context(self) -> ssl.SSLContext:
        """What is asked of the service's certificate: that this machine trusts it."""
        return ssl.create_default_context()


def _part(text: str) -> str:
    """A part of an address that cannot become two."""
    return quote(text, safe="")


def _refused(answer: httpx.Response, *, has_token: bool) -> ServiceError:
    try:
        said = answer.json()["error"]
        words = str(said["message"])
        if answer.status_code == 401:
            words = f"{words} {RENEW}" if has_token else f"This service has accounts, and no token was given. {RENEW}"
        return ServiceError(answer.status_code, str(said["what"]), words)
    except (ValueError, KeyError, TypeError):
        words = f"The service answered with {answer.status_code} {answer.reason_phrase}."
        return ServiceError(answer.status_code, "internal", words)


def _read(kind: type[Content], content: dict[str, Any]) -> Content:
    """An answer as an object; what a newer service says beyond it is left out."""
    known: Iterable[Any] = fields(kind)  # type: ignore[arg-type]
    return kind(**{field.name: _value(field.name, content[field.name]) for field in known})


def _value(name: str, value: Any) -> Any:
    if name in ("created", "started", "finished", "at") and isinstance(value, str):
        return datetime.fromisoformat(value)
    return value
