"""A run's process with quick work instead of a search, for tests of what is around it.

It is started with python -m tests.worlds.quick_child.

All else is the real process: its limits, how it hears of its worker, what it says, how it ends. The settings of the
run say what it does: `seed` decides the bytes of the result, `steps` how many hundredths of a second it takes. It goes
on from checkpoints as an audit does.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from evenhand.errors import EvenhandError
from evenhand.files import flush
from evenhand.service import execute
from evenhand.service.jobs import Job
from evenhand.service.telling import Tell

STUBBORN, CRASHING, FILLING, BUSY = 101, 102, 103, 104  # seeds of runs that misbehave
FAILING_LATE = 105  # in the middle, the first time
KEEP_EVERY = 5  # steps
BLOCK = 65_536

SIDES = [("Sample", "male", "yes", 0.75), ("Witness", "female", "no", 0.25)]
PAIR = {  # as pages show one
    "description": "age 30", "score_of": "yes", "origin": "Row 1 of the data, unchanged.",
    "sides": [{"role": role, "protected": [[f"sex {sex}", True]], "label": label, "score": score}
              for role, sex, label, score in SIDES],
}  # fmt: skip


def result_bytes(seed: int) -> bytes:
    """What a run with this seed must leave, whatever happens to it on the way."""
    return bytes((seed * 31 + i) % 256 for i in range(BLOCK))


def work(job: Job, tell: Tell) -> dict[str, Any]:
    """Write a result slowly."""
    _note_overlaps(job)
    seed, steps, folder = job.config["seed"], job.config["steps"], Path(job.folder)
    _misbehave(seed)
    wanted = result_bytes(seed)
    stopped = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    kept = Kept(Path(str(job.checkpoint)), tell)
    first = kept.step()
    with (folder / "findings.parquet").open("wb") as file:
        file.write(wanted[: BLOCK * first // steps])
        for step in range(first, steps):
            tell("progress", phase="local", done=step, total=steps, findings=step)
            time.sleep(0.01)
            file.write(wanted[BLOCK * step // steps : BLOCK * (step + 1) // steps])
            if step == 0:
                tell("pair", number=1, **PAIR)
            if stopped or (step + 1) % KEEP_EVERY == 0:
                kept.keep(step + 1)
            if seed == FAILING_LATE and first == 0 and step == 20:
                raise EvenhandError("It failed in the middle.")
            if stopped:
                break
    (folder / "summary.json").write_text(f"{seed}\n")
    for path in (*folder.iterdir(), folder):
        flush(path)
    return {"findings": steps, "stopped": "interrupted" if stopped else "completed", "files": {}}


class Kept:
    """A checkpoint as an audit's is: in a folder that is made once, and says when it was written."""

    def __init__(self, folder: Path, tell: Tell) -> None:
        self._folder, self._tell, self._made = folder, tell, folder.is_dir()

    def step(self) -> int:
        """Where the last process was, 0 where there was none."""
        if not (self._folder / "step").is_file():
            return 0
        step = int((self._folder / "step").read_text())
        self._tell("resumed", step=step)
        return step

    def keep(self, step: int) -> None:
        """Save where this one is, and say so afterwards."""
        if not self._made:
            self._folder.mkdir()
            self._made = True
        (self._folder / ".step").write_text(str(step))
        (self._folder / ".step").replace(self._folder / "step")
        self._tell("saved", step=step)


def _misbehave(seed: int) -> None:
    if seed == STUBBORN:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    elif seed == CRASHING:
        print("the last words", file=sys.stderr, flush=True)
        os._exit(3)
    elif seed == FILLING:
        bytearray(8 << 40)
    elif seed == BUSY:
        while True:
            pass


def _note_overlaps(job: Job) -> None:
    """Leave a mark while another process works at the same run."""
    marks, run = Path(os.environ["EVENHAND_TEST_MARKS"]), Path(job.folder).parent.name
    for mark in marks.glob(f"{run}-*"):
        if is_alive(int(mark.name.rpartition("-")[2])):
            (marks / "overlap").write_text(f"{mark.name} lives beside {os.getpid()}")
    (marks / f"{run}-{os.getpid()}").touch()


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


if __name__ == "__main__":
    execute.import_what_is_heavy = lambda: None
    execute.done = work
    execute.main()
