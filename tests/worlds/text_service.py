"""Texts in a service, for tests: files of a user's own, zipped and sent, and runs about them.   PYTEST_DONT_REWRITE"""

import io
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from evenhand.service.settings import Service
from evenhand.service.storage.tables import Run
from evenhand.service.worker import Worker
from tests.worlds.api import API, BYTES
from tests.worlds.text_files import CLASSES, UserFiles, write_user_files

COLUMNS = {"text": "comment", "label": "toxic", "favourable": CLASSES[0]}
TEXT_AUDIT: dict[str, Any] = {"protected": ["gender"], "seeds": 20, "steps": 20, "iterations": 3, "encoder": "none"}


@pytest.fixture(scope="session")
def text_files(tmp_path_factory: pytest.TempPathFactory) -> UserFiles:
    """A CSV of comments, word vectors and a network."""
    return write_user_files(tmp_path_factory.mktemp("texts"))


def zipped(files: dict[str, bytes]) -> bytes:
    """An archive with these files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def zipped_folder(folder: Path, names: Iterable[str] | None = None) -> bytes:
    """An archive with the files of a folder."""
    return zipped({name: (folder / name).read_bytes() for name in names or [path.name for path in folder.iterdir()]})


def zipped_network(files: UserFiles) -> bytes:
    """A network with its word vectors."""
    return zipped_folder(files.folder, ("net.safetensors", "net.json", "vec.txt"))


def send(client: TestClient, what: str, filename: str, content: bytes, **query: str) -> Any:
    """Send a file; returns the answer."""
    return client.post(f"{API}/{what}", params={"filename": filename, **query}, content=content, headers=BYTES)


def sent_texts(client: TestClient, files: UserFiles) -> str:
    """The id of texts whose columns are known."""
    content = Path(files.data).read_bytes()
    known_as = send(client, "datasets", "my.csv", content, name="My comments.csv", domain="text").json()["id"]
    assert client.put(f"{API}/datasets/{known_as}/columns", json=COLUMNS).status_code == 200
    return str(known_as)


def sent_network(client: TestClient, files: UserFiles) -> str:
    """The id of a network with its word vectors."""
    return str(send(client, "models", "net.zip", zipped_network(files)).json()["id"])


def worked(service: Service, run_id: str) -> Run:
    """A run after a worker has done it, in a process of its own."""
    assert Worker(service).run_once() == run_id
    return service.runs.get(run_id)
