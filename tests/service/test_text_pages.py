"""A new audit of texts through the pages, and what its run's pages say and lead to."""

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from evenhand.service.settings import Service
from tests.worlds.pages import ESCAPED, EVIL, Visitor, sound, uploaded
from tests.worlds.text_files import UserFiles
from tests.worlds.text_service import worked, zipped_network

pytest_plugins = ["tests.worlds.service", "tests.worlds.pages", "tests.worlds.text_service"]


def uploaded_texts(visitor: Visitor, files: UserFiles, name: str = "") -> str:
    """The id of texts that were sent with the form, and whose columns were chosen."""
    form = {"domain": "text", "name": name}
    onward = visitor.sent("/new/data", form, {"file": ("my.csv", Path(files.data).read_bytes())})
    known_as = parse_qs(urlsplit(onward).query)["data"][0]
    assert ESCAPED in visitor.see(onward) or not name
    chosen = {"data": known_as, "text": "comment", "label": "toxic", "split": ""}
    assert visitor.sent("/new/columns/texts", chosen) == f"/new/columns?data={known_as}"
    return known_as


def began(visitor: Visitor, known_as: str, files: UserFiles, **more: Any) -> str:
    """The page of a run that was asked for with the form of step 3."""
    answers = {"data": known_as, "protected": "gender", "model": "upload", "task": "audit", "effort": "own"}
    answers |= {"seeds": "20", "steps": "10"} | more
    return visitor.sent("/new/model", answers, {"file": ("net.zip", zipped_network(files))})


def test_an_audit_of_texts_from_upload_to_repair(
    visitor: Visitor, sqlite_service: Service, text_files: UserFiles
) -> None:
    known_as = uploaded_texts(visitor, text_files, EVIL)
    asked = visitor.see(f"/new/columns?data={known_as}")
    assert "72 texts" in asked
    assert "may mention it" in asked
    assert "not toxic" in asked
    assert "comment" in visitor.see(f"/new/columns?data={known_as}&again=1")
    onward = visitor.sent("/new/columns", {"data": known_as, "protected": "gender", "favourable": "not toxic"})
    form = visitor.see(onward)
    assert "How texts are changed" in form
    assert "What it reads" not in form
    assert "Texts to start from" in form
    address = began(visitor, known_as, text_files, swap="all")
    waiting = visitor.see(address)
    assert "Texts to start from" in waiting
    run = worked(sqlite_service, address.removeprefix("/runs/"))
    assert run.state == "done", run.error
    assert (run.config["domain"], run.config["swap"]) == ("text", "all")
    page = visitor.see(address)
    for onward in ("findings", "report", "repair", "measure"):
        assert f"{address}/{onward}" in page
        visitor.see(f"{address}/{onward}")
    assert "How many texts in the data are affected" in page
    assert "Average over the groups" in visitor.see(f"{address}/repair")

    measured = visitor.sent(f"{address}/measure", {"confidence": "0.95", "texts": "50"})
    wrong = visitor.send(f"{address}/measure", {"confidence": "0.95", "texts": "0"})
    assert "Texts of each part at most: write a whole number from 1" in sound(wrong, 400)
    assert sqlite_service.runs.cancel(measured.removeprefix("/runs/")).config["texts"] == 50
    repaired = visitor.sent(f"{address}/repair", {"by": "average", "repeats": "1", "seeds": "5", "steps": "2"})
    asked_for = sqlite_service.runs.cancel(repaired.removeprefix("/runs/"))
    assert (asked_for.kind, asked_for.config["domain"], asked_for.config["seeds"]) == ("repair", "text", 5)
    assert ESCAPED in visitor.see("/runs")

    second = began(visitor, known_as, text_files)
    claim = sqlite_service.runs.claim("a test")
    assert claim is not None
    shutil.copytree(sqlite_service.home.run(run.id), sqlite_service.home.run(claim.run))
    sqlite_service.runs.finish(claim, "done", run.result)
    both = f"?a={run.id}&b={second.removeprefix('/runs/')}"
    compared = visitor.see(f"/compare{both}")
    assert "Texts in the data affected" in compared
    assert "20 texts, 10 steps" in compared
    assert len(visitor.client.get(f"/compare.json{both}").json()["groups"]) == 2


def test_mistakes_stand_beside_their_fields(visitor: Visitor, text_files: UserFiles) -> None:
    content = Path(text_files.data).read_bytes()
    refused = visitor.send("/new/data", {"domain": "text"}, {"file": ("my.csv.gz", content)})
    assert "is not a file of texts" in sound(refused, 400)
    known_as = uploaded_texts(visitor, text_files)
    for columns, words in (
        ({"text": "", "label": "toxic"}, "Choose a column"),
        ({"text": "toxic", "label": "toxic"}, "must differ"),
        ({"text": "body", "label": "toxic"}, "body"),
    ):
        answer = visitor.send("/new/columns/texts", {"data": known_as, **columns})
        assert words in sound(answer, 400)
    answer = visitor.send("/new/columns", {"data": known_as})
    assert "Choose one attribute" in sound(answer, 400)
    assert "good one for the author" in sound(answer, 400)
    form = {"data": known_as, "protected": "gender", "model": "upload", "task": "audit", "effort": "quick"}
    assert "Choose the model" in sound(visitor.send("/new/model", form), 400)
    hostile = {"file": ("net.zip", b"PK\x05\x06" + bytes(18))}
    assert "no model of texts" in sound(visitor.send("/new/model", form, hostile), 400)


def test_built_in_texts_are_offered_and_tables_go_their_own_way(visitor: Visitor, text_files: UserFiles) -> None:
    assert "/new/columns?data=wiki" in visitor.see("/new")
    assert "Wikipedia comments" in visitor.see("/new/columns?data=wiki")
    assert "The built-in network for this data" in visitor.see("/new/model?data=wiki&protected=gender")
    texts, table = uploaded_texts(visitor, text_files), uploaded(visitor)
    assert visitor.sent("/new/columns/label", {"data": texts, "label": "toxic"}) == f"/new/columns?data={texts}"
    assert visitor.sent("/new/columns/text", {"data": texts, "text": "x"}) == f"/new/columns?data={texts}"
    assert visitor.sent("/new/columns/texts", {"data": table, "text": "x"}) == f"/new/columns?data={table}"
