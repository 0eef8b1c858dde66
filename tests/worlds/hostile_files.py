"""Files to send to the service, for tests of what it must refuse, and what is left of them."""

from typing import Any

from fastapi.testclient import TestClient

from evenhand.service.settings import Service
from tests.worlds.api import API, BYTES

ADDRESS = "http://127.0.0.1:8321"
TABLE = b"age,sex,ok\n" + b"".join(
    b"%d,%s,%s\n" % (i, b"mf"[i % 2 : i % 2 + 1], b"yn"[i % 3 == 0 :][:1]) for i in range(60)
)


def send(client: TestClient, kind: str, filename: str, content: bytes, **headers: str) -> Any:
    return client.post(f"{API}/{kind}", params={"filename": filename}, content=content, headers=BYTES | headers)


def nothing_left(service: Service) -> bool:
    return not [path for kind in ("uploads", "datasets", "models") for path in (service.home.path / kind).iterdir()]
