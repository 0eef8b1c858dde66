"""Routes about what a run left: its files, and pages of its findings."""

import os
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from starlette.responses import FileResponse

from evenhand.service.api.answers import (
    FileAnswer,
    FindingAnswer,
    FindingsPage,
    FindingsValues,
    Listed,
    TextFindingAnswer,
)
from evenhand.service.api.caller import Caller, CurrentCaller, Id
from evenhand.service.api.errors import ApiError, documented, errors_as
from evenhand.service.findings import MOST_ROWS, Filters, FindingsIndex
from evenhand.service.findings_index import INDEX, Sort

router = APIRouter(prefix="/api/v1", tags=["results"], responses=documented())

# The report is a page of its own, with style and without script. Names in it come from people: it gets no rights.
REPORT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; base-uri 'none'; "
    "form-action 'none'"
)
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
    ".csv": "text/csv; charset=utf-8",
}
OTHER = "application/octet-stream"
KINDS = (*(kind.partition(";")[0] for kind in TYPES.values()), OTHER)


@router.get("/runs/{run_id}/files", summary="List the files of a run")
def list_files(caller: CurrentCaller, run_id: Id) -> Listed[FileAnswer]:
    """Report, findings, figures, models."""
    return Listed(
        entries=[FileAnswer(name=name, size=path.stat().st_size) for name, path in _files(caller, run_id).items()]
    )


@router.get(
    "/runs/{run_id}/files/{name}",
    summary="Download a file of a run",
    response_class=FileResponse,
    responses={200: {"content": {kind: {} for kind in KINDS}, "description": "The file."}},
)
def download_file(
    caller: CurrentCaller, run_id: Id, name: Annotated[str, InPath(max_length=200, description="As the list has it.")]
) -> FileResponse:
    """Only names of the list are known; the report opens in the browser, everything else is downloaded."""
    path = _files(caller, run_id).get(name)
    if path is None:
        raise ApiError("not-found", f"The run has no file '{name[:80]}'.")
    kind = TYPES.get(path.suffix, OTHER)
    if path.suffix == ".html":
        return FileResponse(path, media_type=kind, headers={"Content-Security-Policy": REPORT_POLICY})
    return FileResponse(path, media_type=kind, filename=name)


def _files(caller: Caller, run_id: str) -> dict[str, Path]:
    """The files of a run by name: what lies in its folder, without attempts, the index, and links."""
    folder = caller.service.home.run(caller.run(run_id).id)
    try:
        found = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except FileNotFoundError:
        return {}
    return {
        entry.name: Path(entry.path)
        for entry in found
        if entry.is_file(follow_symlinks=False) and entry.name != INDEX and not entry.name.startswith(".")
    }


@router.get("/runs/{run_id}/findings", summary="Show findings of an audit")
def show_findings(
    caller: CurrentCaller,
    run_id: Id,
    value: Annotated[
        list[Annotated[str, Query(max_length=500)]],
        Query(max_length=20, description="ATTRIBUTE=VALUE that the sample or its witness has; may be repeated."),
    ] = [],  # noqa: B006 - FastAPI copies it
    label: Annotated[str | None, Query(max_length=500, description="The decision about the sample.")] = None,
    phase: Annotated[str | None, Query(max_length=20, description="global or local.")] = None,
    least_gap: Annotated[float | None, Query(ge=0, le=1, description="The least gap of the scores.")] = None,
    text_value: Annotated[
        str | None, Query(max_length=500, description="Of texts: the protected value that the text names.")
    ] = None,
    witness_value: Annotated[
        str | None, Query(max_length=500, description="Of texts: the protected value that its witness names.")
    ] = None,
    most_words: Annotated[
        int | None, Query(ge=0, le=2**31 - 1, description="Of texts: how many words may be replaced at most.")
    ] = None,
    contains: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Of texts: what the text or its witness contains.")
    ] = None,
    sort: Annotated[
        Sort,
        Query(
            description="In the order of the file; the widest score gap first; of texts also the most similar to their "
            "original first, or the fewest replaced words first."
        ),
    ] = "order",
    after: Annotated[int | None, Query(ge=-1, le=2**53, description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 50,
) -> FindingsPage:
    """A page at any depth costs the same: it goes on after a key, and nothing before it is read."""
    filters = Filters(
        tuple(_pair(text) for text in value), label, phase, least_gap, text_value, witness_value, most_words, contains
    )
    index = _index(caller, run_id)
    page = index.page(filters, sort=sort, after=after, limit=limit)
    kind = TextFindingAnswer if index.texts else FindingAnswer
    return FindingsPage(entries=[kind.model_validate(row) for row in page.rows], total=page.total, next=page.after)


@router.get("/runs/{run_id}/findings/values", summary="Show what findings can be filtered by")
def show_values(caller: CurrentCaller, run_id: Id) -> FindingsValues:
    """Attributes with their values, or the protected values that texts name; labels, phases, orders."""
    index = _index(caller, run_id)
    return FindingsValues(
        rows=index.rows,
        attributes={name: index.words(f"sample.{name}") for name in index.attributes},
        protected=index.protected,
        labels=index.words("label"),
        phases=index.words("phase"),
        sorts=index.sorts,
        text_values=index.words("value") if index.texts else [],
        witness_values=index.words("witness_value") if index.texts else [],
    )


def _index(caller: Caller, run_id: str) -> FindingsIndex:
    path = caller.service.home.run(caller.run(run_id).id) / "findings.parquet"
    with errors_as("not-found"):
        return FindingsIndex.open(path)


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ApiError("invalid", f"`value` must be ATTRIBUTE=VALUE; '{text[:80]}' is not.")
    return name, value
