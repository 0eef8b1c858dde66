"""`evenhand runs resume` of a run that was started in a terminal: it is done again, here."""

import math
from contextlib import chdir
from functools import partial
from typing import TYPE_CHECKING

import typer

from evenhand.cli import audit, measure, repair
from evenhand.cli.tasks import do_task, held_here
from evenhand.errors import EvenhandError

if TYPE_CHECKING:
    from evenhand.service.settings import Service
    from evenhand.service.storage.runs import Claim
    from evenhand.service.storage.tables import Run


def resume_here(service: "Service", run: "Run", as_json: bool) -> None:
    """Do a run again, with its settings and in its folder, and end as its command would."""
    from evenhand.local_runs.held_run import this_process
    from evenhand.local_runs.stored_task import folder_of, stored_task

    folder = folder_of(run.config)  # before the run is touched
    task = stored_task(run.kind, run.config)
    claim = partial(_claim, service, run, this_process())
    with (
        repair.ending_without_result(run.kind == "repair"),
        chdir(folder),
        held_here(service, claim, again=True) as place,
    ):
        place.say = partial(typer.echo, err=True)
        done = do_task(task, place, as_json)
    if run.kind == "audit":
        if not as_json:
            audit.tell(done)
        audit.end([done], False, as_json)
    else:
        tell = measure.tell if run.kind == "measure" else repair.tell
        tell(done, False, as_json)


def _claim(service: "Service", run: "Run", me: str) -> "Claim":
    """Hold the run. Of a process that died it is said when its run is free: it is held for the length of a lease."""
    from evenhand.local_runs.held_run import is_gone

    try:
        return service.runs.claim_again(run.id, me)
    except EvenhandError as error:
        held = service.runs.get(run.id)
        if held.lease_until is None or held.worker is None:
            raise
        with service.database.reading() as session:
            left = held.lease_until - service.database.now(session)
        died = "That process is gone:" if is_gone(held.worker) else "If that process has died,"
        raise EvenhandError(f"{error} {died} try again in {max(1, math.ceil(left.total_seconds()))} s.") from error
