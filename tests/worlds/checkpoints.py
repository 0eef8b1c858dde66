"""A small search with checkpoints that tests can kill after any of them.   PYTEST_DONT_REWRITE

A test file that wants the fixture says `pytest_plugins = ["tests.worlds.checkpoints"]`.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from evenhand.data.dataset import Dataset
from evenhand.data.schema import Schema
from evenhand.methods.registry import make_method
from evenhand.models.classifier import Classifier
from evenhand.models.network import FeedForward
from evenhand.runs.audit import limits_of
from evenhand.runs.checkpoints import Checkpoints, News, keeper_for
from evenhand.runs.findings import FindingsWriter, findings_file
from evenhand.runs.table_subject import TableSubject, TableWorld
from evenhand.runs.tried_model import TriedModel
from evenhand.search.recorder import Findings
from evenhand.search.search import Search
from evenhand.search.seeds import choose_seeds
from evenhand.search.space import TableSpace
from evenhand.settings import AuditSettings
from tests.worlds.schemas import dataset_of, network_of, schema_of

DOMAINS = [(0, 9), (0, 1), (-2, 6), (0, 4), (1, 8)]
SETTINGS: dict[str, Any] = {
    "method": "margin",
    "seeds": 24,
    "iterations": 4,
    "steps": 25,
    "seed": 5,
    "accept_poor_model": True,
}


class Killed(BaseException):
    """What a process that is killed does not live to see."""


@dataclass
class Done:
    """A finished search: its file and its counts."""

    findings: bytes
    counted: dict[str, Any]
    rows: int  # that the model was asked about
    resumed: int


class World:
    """One search that can be made whole, or in pieces, with a file of findings as an audit writes it."""

    def __init__(self, folder: Path, data: Dataset, protected: str, model: FeedForward, **settings: Any) -> None:
        self.folder, self.data, self.protected, self.model = folder, data, protected.split(","), model
        self.settings, self.news, self.told = SETTINGS | settings, list[News](), list[Findings]()
        self.checkpoints = folder / "checkpoint"

    def search(self, checkpoints: Checkpoints | None = None, **changes: Any) -> Done:
        config = AuditSettings.checked(dataset="world", protected=self.protected, **self.settings | changes)
        space, model = (
            TableSpace(self.data.schema, self.protected),
            Classifier(self.model, chunk_rows=config.chunk_rows),
        )
        method, rows = make_method(config.method, config.settings), choose_seeds(self.data, config.seeds, config.seed)
        path = self.folder / "findings.parquet"
        with findings_file(path, partial(FindingsWriter, space=space)) as writer:

            def sink(findings: Findings) -> None:
                writer.write(findings)
                self.told.append(findings)

            tried = TriedModel(model, "world", {}, {}, {}, [])
            subject = TableSubject(self.data, config, tried, self.protected)
            world = TableWorld(space, model, self.data.codes[rows], rows)
            keeper = keeper_for(checkpoints, method, config, model.device, lambda: subject.fingerprint(world))
            search = Search(
                model, space, method, seed=config.seed, limits=limits_of(config), sink=sink, keeper=keeper,
                replay=writer.write,
            )  # fmt: skip
            result = search.run(self.data.codes[rows], rows)
        counted = asdict(result.counts) | {"stopped": result.stopped, "notes": result.notes}
        return Done(path.read_bytes(), counted, model.rows, result.resumed)

    def whole(self, **changes: Any) -> Done:
        """The search in one piece, without checkpoints."""
        return self.search(**changes)

    def killed_after(self, saved: int, **changes: Any) -> None:
        """A search that is killed right after so many checkpoints, which it writes at every step."""

        def on_news(news: News) -> None:
            self.news.append(news)
            if sum(one.kind == "saved" for one in self.news[first:]) == saved:
                raise Killed

        first = len(self.news)
        with pytest.raises(Killed):
            self.search(Checkpoints(self.checkpoints, 0.0, on_news), **changes)

    def finished(self, **changes: Any) -> Done:
        """The rest of it."""
        return self.search(Checkpoints(self.checkpoints, 0.0, self.news.append), **changes)

    def heard(self, kind: str) -> list[News]:
        return [news for news in self.news if news.kind == kind]


@pytest.fixture
def world(tmp_path: Path) -> Callable[..., World]:
    def make(schema: Schema | None = None, protected: str = "a1", classes: int = 2, **settings: Any) -> World:
        schema = schema or schema_of(DOMAINS, classes)
        network = network_of(len(schema.names), classes, 5)
        with torch.no_grad():  # so that it discriminates
            next(network.parameters())[:, schema.protected_indices(protected.split(","))] *= 4
        return World(tmp_path, dataset_of(schema, 60, 1), protected, network, **settings)

    return make


def limited() -> Schema:
    """A schema that says where a search may not go."""
    content = schema_of(DOMAINS).model_dump(by_alias=True)
    content["attribute"][0]["moves"] = "up"
    content["attribute"][2]["moves"] = "none"
    content["attribute"][4]["stride"] = 2
    content["impossible"] = [{"a0": [7], "a3": [4]}]
    return Schema.parse(content, where="the test")
