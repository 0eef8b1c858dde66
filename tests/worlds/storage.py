"""Runs that have come to a state, for tests of what the database keeps."""

from evenhand.service.settings import Service
from evenhand.service.storage.runs import Claim
from evenhand.service.storage.tables import Run
from tests.worlds.service import small_run


def kinds(service: Service, run_id: str) -> list[str]:
    return [event.kind for event in service.runs.events(run_id)]


def claimed(service: Service, worker: str = "worker") -> Claim:
    claim = service.runs.claim(worker)
    assert claim is not None
    return claim


def in_state(service: Service, state: str) -> Run:
    """A run that has come to a state as runs do."""
    run = small_run(service)
    if state == "queued":
        return run
    claim = claimed(service)
    if state == "interrupted":
        service.runs.hand_back(claim)
    elif state == "cancelling":
        service.runs.cancel(run.id)
    elif state == "failed":
        service.runs.finish(claim, "failed", error="It broke.")
    elif state in ("done", "cancelled"):
        service.runs.finish(claim, "done" if state == "done" else "cancelled", result={"findings": 1})
    return service.runs.get(run.id)
