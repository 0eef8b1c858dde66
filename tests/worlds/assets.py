"""A table and a network to be uploaded, in tests of what the service keeps of them."""

import io
import threading
from collections.abc import Callable

from evenhand.errors import EvenhandError
from evenhand.models.loading import BUILTIN
from evenhand.service.settings import Service
from evenhand.service.storage.tables import DataFile, ModelFile

TABLE = b"sex,age,approved\n" + b"f,20,0\nm,30,1\n" * 20
SCHEMA = """
name = "people"
file = "table.csv"
label = { column = "approved", values = ["0", "1"] }
[[attribute]]
name = "sex"
kind = "category"
categories = ["f", "m"]
protected = true
[[attribute]]
name = "age"
kind = "number"
width = 10
domain = [2, 5]
"""
WEIGHTS = (BUILTIN / "census.safetensors").read_bytes()
DESCRIPTION = (BUILTIN / "census.json").read_bytes()
LIMIT = 10 << 20


def add_table(service: Service, content: bytes = TABLE, filename: str = "people.csv", limit: int = LIMIT) -> DataFile:
    return service.assets.add_dataset("default", "people", io.BytesIO(content), filename, limit)


def add_network(service: Service, description: bytes | None = DESCRIPTION) -> ModelFile:
    return service.assets.add_model("default", "net", io.BytesIO(WEIGHTS), "n.safetensors", LIMIT, description)


def files_in(service: Service) -> list[str]:
    """All files and folders below the service's own folders."""
    home = service.home.path
    return sorted(str(path.relative_to(home)) for path in home.glob("*/**/*"))


def outcome_of(action: Callable[[], object], at: threading.Barrier, outcomes: list[str]) -> threading.Thread:
    """A thread that does something when all are ready, and says whether it was done or refused."""

    def attempt() -> None:
        at.wait()
        try:
            action()
            outcomes.append("done")
        except EvenhandError as error:
            outcomes.append(str(error))

    thread = threading.Thread(target=attempt)
    thread.start()
    return thread
