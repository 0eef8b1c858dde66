"""A model behind HTTP: a real server in a thread that is slow, fails, answers nonsense or too little."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
import torch

from evenhand.errors import EvenhandError
from evenhand.models.adapters.http.endpoint import EndpointAdapter, open_address, open_described_endpoint
from evenhand.models.classifier import ModelGone
from evenhand.models.trial import conformance
from tests.worlds.adapters import codes_of, people

Fault = Callable[["Handler", list[dict[str, Any]]], bool]
SHORT = 2.0  # seconds to wait for an answer that is late on purpose; a busy machine answers in less


def score(person: dict[str, Any]) -> float:
    """The probability of yes."""
    odds = person["income"] / 2 - 4 + 2 * (person["sex"] == "male") - (person["job"] is None) + person["member"]
    return float(1 / (1 + np.exp(-odds)))


class Server(ThreadingHTTPServer):
    """Counts what it is asked, and may have a fault: a function that answers itself and says so."""

    daemon_threads = True

    def __init__(self, fault: Fault | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.fault, self.lock = fault, threading.Lock()
        self.requests: list[list[Any]] = []
        self.connections = 0
        self.headers: dict[str, str] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/predict"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gives up is part of the tests."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def setup(self) -> None:
        super().setup()
        with self.server.lock:
            self.server.connections += 1

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        rows = body["instances"] if isinstance(body, dict) and "instances" in body else body
        with self.server.lock:
            self.server.requests.append(rows)
            self.server.headers = dict(self.headers)
        if self.server.fault is None or not self.server.fault(self, rows):
            self.answer({"predictions": [score(person) for person in rows]})

    def answer(self, content: Any, status: int = 200, **headers: str) -> None:
        text = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *arguments: Any) -> None:
        pass


@contextmanager
def serving(fault: Fault | None = None) -> Iterator[Server]:
    server = Server(fault)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def adapter_of(server: Server, **settings: Any) -> EndpointAdapter:
    adapter = open_described_endpoint(people(), {"url": server.url, "wait": 0.001} | settings, where="model.toml")
    assert isinstance(adapter, EndpointAdapter)
    return adapter


def expected_scores(adapter: EndpointAdapter) -> torch.Tensor:
    """Straight from the function that the server uses."""
    people_in_words = adapter._body(adapter._decoder.frame(people().clipped))["instances"]
    yes = torch.tensor([score(person) for person in people_in_words])
    return torch.stack([1 - yes, yes], dim=1)


def first_times(times: int, fault: Fault) -> Fault:
    """A fault that passes."""
    left, lock = [times], threading.Lock()

    def once_more(handler: Handler, rows: list[dict[str, Any]]) -> bool:
        with lock:
            left[0] -= 1
            now = left[0] >= 0
        return now and fault(handler, rows)

    return once_more


def answering(content: Any, status: int = 200, **headers: str) -> Fault:
    def fault(handler: Handler, rows: list[dict[str, Any]]) -> bool:
        handler.answer(content(rows) if callable(content) else content, status, **headers)
        return True

    return fault


def dropping(handler: Handler, rows: list[dict[str, Any]]) -> bool:
    handler.close_connection = True
    return True


def cut_short(handler: Handler, rows: list[dict[str, Any]]) -> bool:
    handler.send_response(200)
    handler.send_header("Content-Length", "10000")
    handler.end_headers()
    handler.wfile.write(b'{"predictions": [0.5')
    handler.close_connection = True
    return True


def too_slow(handler: Handler, rows: list[dict[str, Any]]) -> bool:
    time.sleep(4 * SHORT)
    return False


FAULTS: dict[str, Fault] = {
    "an error": answering("overloaded", 500),
    "too many requests": answering("slow down", 429, Retry_After="0"),
    "unavailable": answering("soon", 503, Retry_After="Wed, 21 Oct 2015 07:28:00 GMT"),
    "garbage": answering("<html>502</html>"),
    "empty": answering(""),
    "fewer rows": answering(lambda rows: {"predictions": [0.5] * (len(rows) - 1)}),
    "not a number": answering(lambda rows: '{"predictions": [' + ", ".join(["NaN"] * len(rows)) + "]}"),
    "nothing": answering(lambda rows: {"predictions": [None] * len(rows)}),
    "words": answering(lambda rows: {"predictions": ["perhaps"] * len(rows)}),
    "no answers": answering({"detail": "fine"}),
    "dropped": dropping,
    "cut short": cut_short,
    "slow": too_slow,
}


def test_an_endpoint_conforms_and_keeps_its_connections() -> None:
    with serving() as server:
        adapter = open_address(people(), server.url)
        assert adapter.about == server.url
        assert not conformance(adapter, people()).gradients
        assert 0 < server.connections <= 4


def test_scores_are_the_models_own_whatever_the_batches() -> None:
    with serving() as server:
        whole, small = adapter_of(server, batch=1000), adapter_of(server, batch=37, workers=8)
        x = codes_of(people())
        assert torch.allclose(whole(x), expected_scores(whole), atol=1e-6)
        assert torch.equal(whole(x), small(x))
        assert max(map(len, server.requests[1:])) == 37


def test_identical_rows_are_asked_once() -> None:
    with serving() as server:
        adapter = adapter_of(server)
        x = codes_of(people())[:50]
        first = adapter(torch.cat([x, x]))
        again = adapter(x.flip(0))
        assert torch.equal(first[:50], first[50:])
        assert torch.equal(again.flip(0), first[:50])
        distinct = len(torch.unique(x, dim=0))
        assert sum(map(len, server.requests)) == distinct
        assert adapter.facts()["rows_sent"] == distinct
        assert adapter.facts()["rows_remembered"] == 150 - distinct


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_passes_is_retried(name: str) -> None:
    with serving(first_times(2, FAULTS[name])) as server:
        adapter = adapter_of(server, batch=150, timeout=SHORT if name == "slow" else 30)
        assert torch.allclose(adapter(codes_of(people())), expected_scores(adapter), atol=1e-6)
        retries = adapter.client.counters.retries
        assert retries == 2 or (name == "slow" and retries > 2)  # a busy machine may be slow too
        assert adapter.client.counters.requests == len(server.requests)


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "slow"])
def test_a_fault_that_stays_is_an_error_and_after_answers_the_model_is_gone(name: str) -> None:
    with serving(FAULTS[name]) as server:
        adapter = adapter_of(server, retries=2)
        x = codes_of(people())
        with pytest.raises(EvenhandError, match="gave no answer that can be used after 3 tries") as caught:
            adapter(x[:10])
        assert not isinstance(caught.value, ModelGone)
        server.fault = None
        adapter(x[:10])
        server.fault = FAULTS[name]
        with pytest.raises(ModelGone, match="does not answer any more after 3 tries"):
            adapter(x)
        assert len(adapter(x[:10])) == 10  # what was answered is remembered


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_refusal_is_not_retried_and_quotes_the_server_but_no_secret(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL_TOKEN", "geheim-4711")
    with serving(answering("wrong key: Bearer geheim-4711, ask\nthe desk", status)) as server:
        adapter = adapter_of(server, headers={"Authorization": "Bearer env:MODEL_TOKEN", "X-Team": "audit"}, batch=5000)
        with pytest.raises(EvenhandError, match=f"status {status} .*wrong key: .* the desk") as caught:
            adapter(codes_of(people()))
        assert server.headers["Authorization"] == "Bearer geheim-4711"
        assert server.headers["X-Team"] == "audit"
    assert len(server.requests) == 1
    assert "geheim" not in str(caught.value)
    assert "geheim" not in json.dumps(adapter.facts())


@pytest.mark.parametrize("good", [False, True])
def test_a_key_in_the_address_is_not_quoted_not_even_in_part(good: bool) -> None:
    def echo(handler: Handler, rows: list[dict[str, Any]]) -> bool:
        words = "sorry " + "." * 175 + f" {handler.path} or geheim+4711/wert is no key"
        handler.answer(words, 200 if good else 403)
        return True

    with serving(echo) as server:
        adapter = open_described_endpoint(
            people(), {"url": f"{server.url}?key=geheim%2B4711%2Fwert&geheim-allein", "wait": 0.001, "retries": 1}, "it"
        )
        with pytest.raises(EvenhandError, match="sorry") as caught:
            adapter(codes_of(people()))
    assert "gehei" not in str(caught.value)
    assert "geheim" not in json.dumps(adapter.facts())


def test_a_key_is_in_no_log_and_a_proxy_of_the_environment_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    caplog.set_level("DEBUG")
    with serving() as server:
        settings = {"url": f"{server.url}?key=geheim-4711", "headers": {"Authorization": "Bearer geheim-0815"}}
        open_described_endpoint(people(), settings, "it")(codes_of(people()))
    assert server.requests
    assert "geheim" not in caplog.text


def test_a_connection_that_the_server_closed_meanwhile_is_no_failure() -> None:
    def closing(handler: Handler, rows: list[dict[str, Any]]) -> bool:
        handler.close_connection = True  # without saying so
        return False

    with serving(closing) as server:
        adapter = adapter_of(server, retries=0)
        x = torch.unique(codes_of(people()), dim=0)
        for person in range(5):
            adapter(x[person : person + 1])
        assert server.connections == len(server.requests) == 5
        assert adapter.client.counters.retries == 0


def test_an_answer_that_is_too_long_or_drips_in_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def dripping(handler: Handler, rows: list[dict[str, Any]]) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", "10000")
        handler.end_headers()
        with suppress(OSError):
            for _ in range(10_000):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.01)
        return True

    with serving(dripping) as server, pytest.raises(EvenhandError, match=r"did not answer within 0\.2 seconds"):
        adapter_of(server, retries=0, timeout=0.2)(codes_of(people()))
    monkeypatch.setattr("evenhand.models.adapters.http.client.LARGEST_ANSWER", 1000)
    with serving(answering(" " * 5000)) as server, pytest.raises(EvenhandError, match="the answer is longer than"):
        adapter_of(server, retries=0)(codes_of(people()))


def test_redirects_are_not_followed() -> None:
    with serving() as other, serving(answering("", 307, Location=other.url + "?key=geheim")) as server:
        with pytest.raises(EvenhandError, match=r"redirects to 127\.0\.0\.1:\d+/predict .*not followed") as caught:
            adapter_of(server)(codes_of(people()))
        assert not other.requests
        assert "geheim" not in str(caught.value)


def test_rows_are_written_as_the_endpoint_reads_them() -> None:
    x = codes_of(people())[:3]
    x[0] = torch.tensor([30, 1, 4, 2, 10, 1])  # a missing job
    with serving(answering(lambda rows: {"y": [0.5] * 3})) as server:
        adapter_of(server, request="records", rows_key="", answer_key="y")(x)
        person = {"age": 30, "sex": "male", "job": None, "region_code": 20, "income": 2.5, "member": True}
        assert person in server.requests[-1]
        adapter_of(server, request="instances", rows_key="instances", answer_key="y")(x)
        assert list(person.values()) in server.requests[-1]
        adapter_of(server, request="columns", answer_key="y")(x)
        columns: Any = server.requests[-1]
        place = columns["age"].index(30)
        assert {name: values[place] for name, values in columns.items()} == person


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (0.25, [0.75, 0.25]),
        ([0.25], [0.75, 0.25]),
        ([0.25, 0.75], [0.25, 0.75]),
        ({"yes": 0.25, "no": 0.75}, [0.75, 0.25]),
        ("yes", [0.0, 1.0]),
        (1, [0.0, 1.0]),
    ],
)
def test_answers_may_be_scores_or_labels(entry: Any, expected: list[float]) -> None:
    with serving(answering(lambda rows: [entry] * len(rows))) as server:
        assert adapter_of(server)(codes_of(people())[:2])[0].tolist() == expected


def test_classes_may_stand_in_another_order_and_logits_are_said() -> None:
    with serving(answering(lambda rows: [[2.5, -1.0]] * len(rows))) as server:
        x = codes_of(people())[:2]
        adapter = adapter_of(server, classes=["yes", "no"], output="logits")
        assert adapter(x)[0].tolist() == [-1.0, 2.5]
        assert adapter.output == "logits"
        with pytest.raises(EvenhandError, match=r"2\.5 is not a probability; if the scores are logits"):
            adapter_of(server, retries=0)(x)


def test_costs_are_counted_and_a_budget_is_kept() -> None:
    with serving(first_times(1, FAULTS["an error"])) as server:
        cost = {"per_row": 0.01, "per_request": 1.0, "currency": "EUR"}
        adapter = adapter_of(server, batch=10, budget=30, cost=cost)
        x = torch.unique(codes_of(people()), dim=0)
        adapter(x[:20])
        facts = adapter.facts()
        assert (facts["requests"], facts["retries"], facts["rows_sent"]) == (3, 1, 30)
        assert facts["cost"] == pytest.approx(3 * 1.0 + 30 * 0.01)
        assert facts["currency"] == "EUR"
        with pytest.raises(ModelGone, match="budget of 30 rows"):
            adapter(x[:31])
        assert len(server.requests) == 3
        adapter(x[:30])


def test_a_rate_limit_spreads_requests() -> None:
    with serving() as server:
        adapter = adapter_of(server, batch=10, rate=50.0)
        start = time.monotonic()
        adapter(torch.unique(codes_of(people()), dim=0)[:60])
        assert time.monotonic() - start >= 5 / 50  # six requests, the first at once
        assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"url": "ftp://models/predict"}, "model.toml is wrong at url: it must be an address such as"),
        ({"url": "https://me:secret@models/predict"}, "a password does not belong"),
        (
            {"url": "http://models/predict", "bach": 5},
            "model.toml is wrong at bach: there is no setting called 'bach'; did you mean 'batch'",
        ),
        ({"url": "http://models/predict", "retries": -1}, "model.toml is wrong at retries"),
        ({"url": "http://models/predict", "headers": {"A": "env:NOT_SET_ANYWHERE"}}, "NOT_SET_ANYWHERE, which is not"),
        ({"url": "http://models/predict", "headers": {"A": "line\nbreak-secret"}}, "the header 'A' has"),
        ({"url": "http://models/predict", "classes": ["a", "b"]}, "classes are a, b"),
    ],
)
def test_wrong_settings_are_named_and_secrets_are_not(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(EvenhandError, match=words) as caught:
        open_described_endpoint(people(), settings, where="model.toml")
    assert "secret" not in str(caught.value)


def test_an_address_where_nobody_listens() -> None:
    with socket.socket() as taken:  # bound but not listening, so that nobody else gets the port meanwhile
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/predict"
        adapter = open_described_endpoint(people(), {"url": url, "retries": 1, "wait": 0.001}, where="model.toml")
        with pytest.raises(EvenhandError, match=r"after 2 tries: the connection failed \(Connection refused\)"):
            adapter(codes_of(people()))
