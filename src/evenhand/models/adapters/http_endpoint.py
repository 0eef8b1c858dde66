"""A model behind an address: rows go out as JSON in batches, scores come back. Each row is asked once."""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor

from evenhand.data.dataset import Dataset
from evenhand.errors import EvenhandError
from evenhand.mistakes import ended, first_mistake
from evenhand.models.adapters.base import Adapter, class_order
from evenhand.models.adapters.http_answers import Answers
from evenhand.models.adapters.http_client import Client, Failed, Refused, Stopped
from evenhand.models.adapters.http_settings import Endpoint
from evenhand.models.classifier import BudgetSpent, ModelGone

REMEMBERED = 200_000  # rows whose answers are kept


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
        self._answers = Answers(endpoint, data.schema.label, order)
        self.client = Client(
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
            scores[absent] = self._asked(rows[absent])
            self._remember([keys[place] for place in absent], scores[absent])
        return torch.from_numpy(scores[places.reshape(-1)]).to(x.device)

    def _remember(self, keys: Sequence[bytes], scores: NDArray[np.float32]) -> None:
        self._known.update(zip(keys, scores, strict=True))
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)

    def _asked(self, codes: NDArray[np.int32]) -> NDArray[np.float32]:
        """(n, classes) scores of distinct rows, several batches at once."""
        budget = self._endpoint.budget
        if budget is not None and self.answered + len(codes) > budget:
            raise BudgetSpent(
                f"The budget of {budget:,} rows for {self.about} is spent: {self.answered:,} were answered, and "
                f"{len(codes):,} more are needed. Raise budget in its description, or use --max-rows to stop earlier."
            )
        batches = [codes[start : start + self._endpoint.batch] for start in range(0, len(codes), self._endpoint.batch)]
        parts = self._together(batches)
        self.answered += len(codes)
        return np.concatenate(parts)

    def _together(self, batches: Sequence[NDArray[np.int32]]) -> list[NDArray[np.float32]]:
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
            if isinstance(error, Failed | Refused):
                raise self._gone(error) from error
        for error in errors:
            raise error
        return [future.result() for future in futures]

    def _batch(self, codes: NDArray[np.int32], stop: threading.Event) -> NDArray[np.float32]:
        body = self._body(self._decoder.frame(codes))
        try:
            scores: NDArray[np.float32] = self.client.ask(
                body, len(codes), lambda answer: self._answers.scores(answer, len(codes)), stop
            )
        except Stopped:
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

    def _gone(self, error: Exception) -> EvenhandError:
        tries = "" if isinstance(error, Refused) else f" after {self._endpoint.retries + 1} tries"
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
