"""A model behind an address: rows go out as JSON in batches, scores come back. Each row is asked once."""

import math
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator
from torch import Tensor

from evenhand.data.attribute import Finite, as_text
from evenhand.data.dataset import Dataset
from evenhand.data.schema import Label
from evenhand.errors import EvenhandError
from evenhand.mistakes import ended, first_mistake
from evenhand.models.adapters.base import Adapter, class_order, scores_of
from evenhand.models.adapters.http.client import EndpointClient, RequestFailed, RequestRefused, RequestStopped
from evenhand.models.classifier import BudgetSpent, ModelGone

FROM_ENVIRONMENT = "env:"
Positive = Annotated[Finite, Field(gt=0)]
USUAL_KEYS = ("predictions", "probabilities", "scores", "outputs", "labels")
ROUNDING = 1e-6  # probabilities may be beyond 0 and 1 by so much
REMEMBERED = 200_000  # rows whose answers are kept


class Cost(BaseModel):
    """What asking costs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    per_row: Annotated[Finite, Field(ge=0)] = 0.0
    per_request: Annotated[Finite, Field(ge=0)] = 0.0
    currency: str = ""


class Endpoint(BaseModel):
    """An address that answers rows with scores.

    `request`: "records" (an object per row), "instances" (a list of values per row, in the schema's order) or "columns"
    (a list of values per column), under `rows_key` ("" for the bare document). `answer_key` is where the answers stand
    ("" for the bare document); without it the usual places are tried. `classes` names the order of the answers' scores
    where it is not the schema's. `budget` is how many rows may be answered.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str
    method: Literal["POST", "PUT"] = "POST"
    headers: dict[str, str] = {}
    request: Literal["records", "columns", "instances"] = "records"
    rows_key: str = "instances"
    answer_key: str | None = None
    output: Literal["probabilities", "logits"] = "probabilities"
    classes: Annotated[list[str], BeforeValidator(as_text)] = []
    batch: Annotated[int, Field(ge=1, le=100_000)] = 500
    workers: Annotated[int, Field(ge=1, le=64)] = 4
    retries: Annotated[int, Field(ge=0, le=100)] = 4
    wait: Annotated[Finite, Field(ge=0)] = 0.5
    timeout: Positive = 30.0
    rate: Positive | None = None
    cost: Cost = Cost()
    budget: Annotated[int, Field(ge=1)] | None = None

    @field_validator("url")
    @classmethod
    def _checked_url(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            usable = False
        if not usable or re.search(r"[^!-~]", url):
            raise ValueError("it must be an address such as https://models.example.org/predict")
        if parts.username is not None or parts.password is not None:
            raise ValueError('a password does not belong in an address; use headers with "env:NAME"')
        return url

    def headers_with_secrets(self, where: str) -> dict[str, str]:
        """The headers, with words such as env:TOKEN replaced by that variable of the environment."""
        return {name: _header(name, value, where) for name, value in self.headers.items()}


def _header(name: str, value: str, where: str) -> str:
    """One header's value. Errors never show it."""
    words = [_secret(name, word, where) if word.startswith(FROM_ENVIRONMENT) else word for word in value.split(" ")]
    full = " ".join(words)
    if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not re.fullmatch(r"[\t\x20-\x7e]*", full):
        raise EvenhandError(f"{where}: the header '{name}' has a name or a value that HTTP does not allow.")
    return full


def _secret(header: str, word: str, where: str) -> str:
    variable = word.removeprefix(FROM_ENVIRONMENT)
    if variable not in os.environ:
        raise EvenhandError(
            f"{where}: the header '{header}' is read from the environment variable {variable}, which is not set."
        )
    return os.environ[variable].strip()


class AnswerReader:
    """Reads answers: lists of scores, objects of scores by class, one score for the second class, or labels."""

    def __init__(self, endpoint: Endpoint, label: Label, order: list[int] | None) -> None:
        """`order`: where each class of the schema stands among the scores of an answer."""
        self._key, self._output, self._label, self._order = endpoint.answer_key, endpoint.output, label, order
        self._classes = endpoint.classes or label.values

    def scores(self, answer: Any, rows: int) -> NDArray[np.float32]:
        """(rows, classes) scores; an answer that cannot be used is Failed, and asked for again."""
        entries = self._entries(answer)
        if len(entries) != rows:
            raise RequestFailed(f"it answered {len(entries):,} rows when {rows:,} were asked")
        values = np.array([self._row(entry) for entry in entries], dtype=np.float64)
        outside = (values < -ROUNDING) | (values > 1 + ROUNDING)
        if self._output == "probabilities" and outside.any():
            raise RequestFailed(
                f"{values[outside][0]:g} is not a probability; if the scores are logits, say output = 'logits' in the "
                "description"
            )
        return scores_of(values, rows, self._label, self._order).numpy()

    def _entries(self, answer: Any) -> list[Any]:
        keys = USUAL_KEYS if self._key is None else (self._key,)
        if isinstance(answer, dict):
            found = [answer[key] for key in keys if key in answer]
            if not found:
                given = ", ".join(map(str, list(answer)[:8])) or "nothing"
                wanted = " or ".join(keys) or "list by itself"
                raise RequestFailed(f"the answer has no {wanted}; it has {given}. Say answer_key in a description")
            answer = found[0]
        if not isinstance(answer, list):
            raise RequestFailed(f"the answer is {_in_words(answer)} and not a list with one entry per row")
        return answer

    def _row(self, entry: Any) -> list[float]:
        """The scores of all classes, in the endpoint's order."""
        classes = self._classes
        if isinstance(entry, dict):
            if set(entry) != set(classes):
                raise RequestFailed(
                    f"an answer has scores for {', '.join(map(str, entry))} and not for {', '.join(classes)}"
                )
            return [_number(entry[name]) for name in classes]
        if isinstance(entry, list) and len(entry) == len(classes):
            return [_number(value) for value in entry]
        if isinstance(entry, list) and len(entry) == 1:
            entry = entry[0]
        if isinstance(entry, list):
            raise RequestFailed(f"an answer has {len(entry)} scores, but there are {len(classes)} classes")
        return self._from_one(entry)

    def _from_one(self, entry: Any) -> list[float]:
        """A label as 1 for its class and 0 for the others, or one score for the second of two classes."""
        text = str(entry).lower() if isinstance(entry, bool) else str(entry)
        if isinstance(entry, str | int) and text in self._classes:
            return [float(name == text) for name in self._classes]
        score = _number(entry)
        if len(self._classes) != 2:
            raise RequestFailed(f"one score is not enough for {len(self._classes)} classes")
        if self._output == "probabilities" and not 0 <= score <= 1:
            raise RequestRefused(
                f"an answer is the number {score:g}, which is no probability: a regressor cannot be audited. If it is "
                "a logit, say output = 'logits' in a description"
            )
        return [1 - score, score] if self._output == "probabilities" else [0.0, score]


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RequestFailed(f"an answer has {_in_words(value)} where a score should be")
    return float(value)


def _in_words(value: Any) -> str:
    """A value in words, cut short."""
    words = "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value)
    return words if len(words) <= 40 else words[:40] + "…"


def open_address(data: Dataset, url: str) -> Adapter:
    """A model behind an address, asked in the usual way; a description (.toml) can say another."""
    return open_described_endpoint(data, {"url": url}, where="the address")


def open_described_endpoint(data: Dataset, settings: dict[str, Any], where: str) -> Adapter:
    """A model behind an address with settings as in a description file; `where` names it in errors."""
    try:
        endpoint = Endpoint.model_validate(settings)
    except ValidationError as error:
        location, reason = first_mistake(error, Endpoint)
        place = ".".join(map(str, location)) or "the top level"
        raise EvenhandError(f"{where} is wrong at {place}: {ended(reason)}") from error
    return EndpointAdapter(data, endpoint, endpoint.headers_with_secrets(where))


PEOPLE_ROWS = 20_000  # for looking at the people of the data; a random part of them where that is too few


class EndpointAdapter(Adapter):
    """Asks an HTTP endpoint. The order in which answers arrive changes nothing."""

    no_gradients = "it is asked over HTTP"

    def __init__(self, data: Dataset, endpoint: Endpoint, headers: dict[str, str]) -> None:
        super().__init__()
        self._endpoint, self._schema = endpoint, data.schema
        self._decoder = data.decoder
        order = class_order(endpoint.classes, data.schema.label) if endpoint.classes else None
        self._answers = AnswerReader(endpoint, data.schema.label, order)
        self.client = EndpointClient(
            endpoint.url,
            headers,
            method=endpoint.method,
            timeout=endpoint.timeout,
            retries=endpoint.retries,
            rate=endpoint.rate,
            first_wait=endpoint.wait,
        )
        self.about, self.output = self.client.place, endpoint.output
        self.people_rows = min(PEOPLE_ROWS, (endpoint.budget or 4 * PEOPLE_ROWS) // 4 or 1)
        self.chunk_rows = endpoint.batch * endpoint.workers * 2  # few enough to see a wish to stop
        self._known: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self.answered = self.remembered = 0  # rows that the server scored, and that were known already

    @property
    def cost(self) -> float:
        """What the requests so far may have cost, failed ones included."""
        cost, counters = self._endpoint.cost, self.client.counters
        return cost.per_request * counters.requests + cost.per_row * counters.rows

    def forget(self) -> None:
        """Ask the endpoint again about rows that it has answered."""
        self._known.clear()

    def facts(self) -> dict[str, Any]:
        """Requests, rows, retries, seconds and cost so far."""
        counters = self.client.counters
        return {
            "address": self.about,
            "requests": counters.requests,
            "rows_sent": counters.rows,
            "rows_remembered": self.remembered,
            "retries": counters.retries,
            "seconds_waited": round(counters.seconds, 3),
            "cost": round(self.cost, 6),
            "currency": self._endpoint.cost.currency,
        }

    def forward(self, x: Tensor) -> Tensor:
        """(n, d) codes to (n, classes) scores."""
        codes = x.cpu().numpy().astype(np.int32)
        rows, places = np.unique(codes, axis=0, return_inverse=True)
        keys = [row.tobytes() for row in rows]
        scores = np.empty((len(rows), len(self._schema.label.values)), dtype=np.float32)
        absent = [place for place, key in enumerate(keys) if key not in self._known]
        for place, key in enumerate(keys):
            if key in self._known:
                self._known.move_to_end(key)
                scores[place] = self._known[key]
        self.remembered += len(codes) - len(absent)
        if absent:
            scores[absent] = self._ask(rows[absent])
            self._remember([keys[place] for place in absent], scores[absent])
        return torch.from_numpy(scores[places.reshape(-1)]).to(x.device)

    def _remember(self, keys: Sequence[bytes], scores: NDArray[np.float32]) -> None:
        self._known.update(zip(keys, scores, strict=True))
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _ask(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        """(n, classes) scores of distinct rows, several batches at once."""
        budget = self._endpoint.budget
        if budget is not None and self.answered + len(codes) > budget:
            raise BudgetSpent(
                f"The budget of {budget:,} rows for {self.about} is spent: {self.answered:,} were answered, and "
                f"{len(codes):,} more are needed. Raise budget in its description, or use --max-rows to stop earlier."
            )
        batches = [codes[start : start + self._endpoint.batch] for start in range(0, len(codes), self._endpoint.batch)]
        parts = self._ask_batches(batches)
        self.answered += len(codes)
        return np.concatenate(parts)

    def _ask_batches(self, batches: Sequence[NDArray[np.int32]]) -> list[NDArray[np.float32]]:
        """Scores of each batch. When one fails for good the others stop trying."""
        stop = threading.Event()
        with ThreadPoolExecutor(min(self._endpoint.workers, len(batches))) as pool:
            futures = [pool.submit(self._batch, batch, stop) for batch in batches]
            try:
                wait(futures)
            finally:
                stop.set()  # after Ctrl-C too
        errors = [error for error in (future.exception() for future in futures) if error is not None]
        for error in errors:
            if isinstance(error, RequestFailed | RequestRefused):
                raise self._gone_error(error) from error
        for error in errors:
            raise error
        return [future.result() for future in futures]

    def _batch(self, codes: NDArray[np.int32], stop: threading.Event) -> NDArray[np.float32]:
        body = self._body(self._decoder.frame(codes))
        try:
            scores: NDArray[np.float32] = self.client.ask(
                body, len(codes), lambda answer: self._answers.scores(answer, len(codes)), stop
            )
        except RequestStopped:
            raise
        except BaseException:
            stop.set()
            raise
        return scores

    def _body(self, frame: pd.DataFrame) -> Any:
        """Rows as the endpoint reads them, with null for what is missing."""
        columns = {name: _plain(frame[name]) for name in frame.columns}
        if self._endpoint.request == "columns":
            rows: Any = columns
        else:
            rows = [list(values) for values in zip(*columns.values(), strict=True)]
            if self._endpoint.request == "records":
                rows = [dict(zip(columns, values, strict=True)) for values in rows]
        return {self._endpoint.rows_key: rows} if self._endpoint.rows_key else rows

    def _gone_error(self, error: Exception) -> EvenhandError:
        tries = "" if isinstance(error, RequestRefused) else f" after {self._endpoint.retries + 1} tries"
        if self.answered:
            return ModelGone(f"{self.about} does not answer any more{tries}: {error}.")
        return EvenhandError(
            f"{self.about} gave no answer that can be used{tries}: {error}. Check the address, and how it is asked: "
            "request, rows_key, answer_key and headers in a description (.toml)."
        )


def _plain(column: pd.Series) -> list[Any]:
    """Values as JSON has them."""
    values = column.astype(object)
    return values.where(column.notna(), None).tolist()
