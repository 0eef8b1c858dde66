"""The pages of the paper's tables: which studies stand on each, how they are made and written."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evenhand.files import read_json, write_json, write_text
from evenhand.paper.driver import OnDownload, Reproduction, Study, earlier_run, reproduce
from evenhand.paper.processes import Say
from evenhand.paper.table_audits import TABLE_AUDIT_STUDY
from evenhand.paper.table_repairs import TABLE_REPAIR_STUDY
from evenhand.paper.text_audits import TEXT_AUDIT_STUDY
from evenhand.paper.text_repairs import TEXT_REPAIR_STUDY
from evenhand.report.tables import Table, html_page, markdown

ALONE = ""  # the name of the only study of a page
CONTENT, UNFINISHED = "tables.json", "unfinished.json"  # the second while rows are measured


@dataclass(frozen=True)
class PaperPage:
    """A page that can be made."""

    title: str
    studies: dict[str, Study[Any, Any]]  # by their names in tables.json

    def prepare(self, on_download: OnDownload) -> None:
        """Download what is needed, and say now, not after minutes, what is missing."""
        for study in self.studies.values():
            study.prepare(on_download)


REPAIRS = "The paper's repairs, made again"
PAGES = {
    "tables": PaperPage("The paper's tables, made again", {ALONE: TABLE_AUDIT_STUDY}),
    "text-tables": PaperPage("The paper's tables for texts, made again", {ALONE: TEXT_AUDIT_STUDY}),
    "repair-tables": PaperPage(REPAIRS, {"data": TABLE_REPAIR_STUDY, "texts": TEXT_REPAIR_STUDY}),
    "text-repair-tables": PaperPage(REPAIRS, {"texts": TEXT_REPAIR_STUDY}),
}


@dataclass(frozen=True)
class FinishedPage:
    """What was measured for a page; where the user stopped, some of its studies may be missing."""

    title: str
    parts: dict[str, Reproduction[Any, Any]]

    @property
    def left_out(self) -> list[tuple[str, ...]]:
        """Rows that were not measured, since the user wanted to stop."""
        return [row for part in self.parts.values() for row in part.left_out]

    def tables(self) -> list[Table]:
        """The tables of all studies."""
        return [table for part in self.parts.values() for table in part.tables()]

    def as_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        contents = {name: part.as_dict() for name, part in self.parts.items()}
        return contents.get(ALONE, contents)

    def write(self, folder: Path) -> None:
        """Write tables.md, tables.html and tables.json."""
        tables, intro = self.tables(), " ".join(part.intro() for part in self.parts.values())
        write_text(folder / "tables.md", markdown(self.title, tables, intro))
        write_text(folder / "tables.html", html_page(self.title, tables, intro))
        write_json(folder / CONTENT, self.as_dict())


def make_page(
    page: PaperPage,
    folder: Path,
    quick: bool = False,
    say: Say = lambda message: None,
    *,
    workers: int | None = None,
    change_plan: Callable[[Any], Any] = lambda plan: plan,
) -> FinishedPage:
    """Measure what the page needs and write it; rows of an interrupted run in the same folder are not measured again.

    Nothing is written where no row is whole.
    """
    interrupted = interrupted_run(page, folder)
    made = FinishedPage(page.title, {})
    for name, study in page.studies.items():
        plan = change_plan(study.quick if quick else study.plan)
        earlier = earlier_run(study, plan, interrupted.get(name, {}))
        if earlier is not None and earlier.rows:
            say(f"resumed: {len(earlier.rows)} of {len(study.rows)} {study.noun}s are there already")

        def save(part: Reproduction[Any, Any], done: FinishedPage = made, name: str = name) -> None:
            write_json(folder / UNFINISHED, replace(done, parts=done.parts | {name: part}).as_dict())

        part = reproduce(study, plan, say, workers=workers, earlier=earlier, on_row=save)
        made = replace(made, parts=made.parts | {name: part})
        if part.left_out:
            break
    if made.tables():
        made.write(folder)
        (folder / UNFINISHED).unlink(missing_ok=True)
    return made


def interrupted_run(page: PaperPage, folder: Path) -> dict[str, Any]:
    """What a run that did not end left in the folder, by study; nothing where it ended, or there was none."""
    unfinished = (folder / UNFINISHED).is_file()
    file = folder / (UNFINISHED if unfinished else CONTENT)
    if not file.is_file():
        return {}
    content = read_json(file)
    parts = {ALONE: content} if ALONE in page.studies else content
    ended = all(name in parts and not parts[name].get("left_out") for name in page.studies)
    return {} if ended and not unfinished else parts
