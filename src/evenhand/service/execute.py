"""One run in a process of its own: `python -m evenhand.service.execute`, with a job as a line of JSON on its input.

It says what happens as lines of JSON on its output. On its input its worker says again and again for how many seconds
more the run is surely theirs. The process ends when nothing comes in that time, or when the input is closed: it never
outlives its worker, nor does it go on beside a process that does the same. SIGTERM asks it to stop: an audit then keeps
what it has found. An audit also writes checkpoints, from which the next process goes on if this one is killed.
"""

import os
import select
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from evenhand.errors import EvenhandError
from evenhand.runs.tasks import Listener, Task, perform
from evenhand.service.jobs import UNSURE, Job, result_of
from evenhand.service.limits import end_with_parent, leave_network, let_others_go_first, limit_memory, limit_processor
from evenhand.service.model_archive import open_archive
from evenhand.service.requests import CorpusFacts, RunRequest, TextColumns, request_of
from evenhand.service.telling import FirstPairs, ProgressTeller, Tell, Teller
from evenhand.text import CORPORA
from evenhand.text.download import DownloadError

if TYPE_CHECKING:
    from evenhand.data.dataset import Dataset
    from evenhand.runs.checkpoints import Checkpoints, News
    from evenhand.settings import TaskName
    from evenhand.text.corpus import Corpus

UNPACKED = "model"  # the folder of a model that came as a zip, while its run lasts
NO_MEMORY = ("allocate memory", "bad_alloc", "bad allocation", "Unable to allocate", "start new thread")


def main() -> None:
    """Wait for a job and do it."""
    tell = Teller(_own_output())
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have let it be ignored
    signal.signal(signal.SIGTERM, _stop)
    try:
        notes = [leave_network()]  # first: it needs a process with one thread
        os.environ["PIP_NO_INDEX"] = "1"  # what would have to be downloaded is refused at once
        end_with_parent()
        import_what_is_heavy()
        worker = Lines(0)
        line = worker.next(None)
        if not line:
            return
        job = Job.of_text(line)
        threading.Thread(target=_end_with, args=(worker, job.lease), daemon=True).start()
        let_others_go_first()
        notes += limits_for(job)
        for note in filter(None, notes):
            tell("note", text=note)
        do_job(job, tell)
    except KeyboardInterrupt:
        tell("stopped")


def _own_output() -> Any:
    """The output for events. Whatever a library prints goes to the errors instead."""
    stream = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return stream


def _stop(_number: int, _frame: FrameType | None) -> None:
    """A wish to stop is what Ctrl-C is on the command line."""
    signal.raise_signal(signal.SIGINT)


def import_what_is_heavy() -> None:
    """Before the job comes, so that a process that waits is ready."""
    import duckdb  # noqa: F401

    import evenhand.runs.audit
    import evenhand.runs.measure
    import evenhand.runs.repair
    import evenhand.service.findings  # noqa: F401


class Lines:
    """Lines from a file that is open, with a limit to the patience."""

    def __init__(self, handle: int) -> None:
        self._handle, self._rest = handle, b""

    def next(self, seconds: float | None) -> str:
        """The next line; an empty one at the end of the file, or where none comes in so many seconds."""
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._handle], [], [], seconds)
            read = os.read(self._handle, 1 << 16) if ready else b""
            if not read:
                return ""
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()


def _end_with(worker: Lines, seconds: float) -> None:
    """End this process when its worker has gone, or cannot say any more that the run is theirs."""
    while line := worker.next(seconds):
        seconds = float(line)
    os._exit(UNSURE)


def limits_for(job: Job) -> list[str | None]:
    """Limit what this process may take; returns what could not be limited."""
    notes = [limit_processor(job.seconds)]
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():  # its driver reserves far more addresses than memory
        return [*notes, "The run's memory is not limited: it uses a graphics card."]
    return [*notes, limit_memory(job.memory)]


def do_job(job: Job, tell: Tell) -> None:
    """Do the job and say how it ended: done with its figures, or failed with what a person can do about it."""
    try:
        result = done(job, tell)
    except KeyboardInterrupt:
        raise
    except Exception as error:
        tell("failed", error=in_words(error, job))
        if not isinstance(error, EvenhandError):
            raise  # for the worker's log
    else:
        tell("done", result=result)


def in_words(error: BaseException, job: Job) -> str:
    """An error for the person who asked for the run: where the files of the service are is not theirs to know."""
    if isinstance(error, MemoryError) or any(words in str(error) for words in NO_MEMORY):
        return (
            f"The run needed more than the {job.memory / 2**30:,.1f} GiB of memory that it may take. Ask for fewer "
            "seeds or steps, use a smaller model, or let whoever runs the service allow more."
        )
    words = str(error) if isinstance(error, EvenhandError) else f"{type(error).__name__}: {error}"
    words = words.replace(f"{Path(job.folder) / UNPACKED}{os.sep}", "")
    for path in filter(None, (job.table, job.model, job.folder)):
        words = words.replace(f"{Path(path).parent}{os.sep}", "")
    return words


def done(job: Job, tell: Tell) -> dict[str, Any]:
    """The figures of a run whose files are in its folder."""
    request, folder = request_of(job.kind, job.config), Path(job.folder)
    try:
        with _model_at_hand(job) as (model, own):
            given = request.given() | own | {"plain_names": True}
            task = Task(cast("TaskName", job.kind), request.dataset, request.protected, model, given, request.domain)
            summary = perform(task, JobListener(job, tell), folder, data=_data_of(job, request))
    except DownloadError as error:
        raise EvenhandError(_not_here(request, str(error))) from error
    if (folder / "findings.parquet").is_file():
        tell("progress", phase="index", done=0, total=1)
    result = result_of(job.kind, summary, folder)
    return result | ({"error": in_words(EvenhandError(result["error"]), job)} if "error" in result else {})


class JobListener(Listener):
    """Says to the worker how the job goes."""

    def __init__(self, job: Job, tell: Tell) -> None:
        self._job, self._tell, self._progress = job, tell, ProgressTeller(tell)
        self.search, self.count, self.step = self._progress.search, self._progress.count, self._progress.step  # type: ignore[method-assign]
        self.findings = FirstPairs(tell, job.told)  # type: ignore[method-assign]

    def checkpoints(self) -> "Checkpoints | None":
        """Those of an audit stay until its run is over: its worker may be killed when it puts the result away."""
        from evenhand.runs.checkpoints import Checkpoints

        if self._job.checkpoint is None:
            return None
        return Checkpoints(Path(self._job.checkpoint), checkpoint_seconds(), self._news, keep=True)

    def _news(self, news: "News") -> None:
        if news.kind == "resumed":
            self._progress.resumed(news.step, news.total, news.findings, news.seconds)
        elif news.kind == "saved":
            self._tell("progress", saved=news.findings)
        else:
            self._tell("note", text=news.text)


def _not_here(request: RunRequest, words: str) -> str:
    """What to say where a run needs what would have to be downloaded."""
    corpus = request.dataset if request.dataset in CORPORA else "wiki"
    what = words.removeprefix("Cannot download ").partition(":")[0]
    return (
        f"This server does not have {what}, and a run has no network. Whoever runs the service can fetch it once: "
        f"`evenhand audit {corpus} -p gender --seeds 1 --steps 0` on the server, as the user that the service runs as."
    )


def _data_of(job: Job, request: RunRequest) -> "Dataset | Corpus":
    from evenhand.data.dataset import load_dataset, read_dataset
    from evenhand.data.schema import Schema

    if request.domain == "text":
        return _corpus(job, request)
    if job.table is None:
        return load_dataset(request.dataset)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".toml") as file:
        file.write(job.schema or "")
        file.flush()
        schema = Schema.load(Path(file.name))
    # The table is the one that was uploaded, whatever file the schema names.
    return read_dataset(schema, Path(job.table))


def _corpus(job: Job, request: RunRequest) -> "Corpus":
    """The texts, under the name that people gave them."""
    from evenhand.text.corpus import load_corpus

    if job.table is None:
        return load_corpus(request.dataset)
    columns = CorpusFacts.model_validate_json(job.schema or "{}").model_dump(include=set(TextColumns.model_fields))
    corpus = load_corpus(job.table, **columns)
    name = job.name or corpus.name
    return replace(corpus, name=name.partition(".")[0].strip() or corpus.name, title=name)


@contextmanager
def _model_at_hand(job: Job) -> Iterator[tuple[str | None, dict[str, Any]]]:
    """The model by its plain name in the current folder, so that no summary tells where the service keeps it.

    With it comes what an archive has beside the model: its word vectors.
    """
    if job.model is None:
        yield None, {}
        return
    model = Path(job.model)
    if model.suffix != ".zip":
        with chdir(model.parent):
            yield model.name, {}
        return
    from evenhand.text.vectors import load_vectors

    archive, folder = open_archive(model), Path(job.folder) / UNPACKED
    try:
        archive.unpack(folder)
        vectors = {} if archive.vectors is None else {"vectors": load_vectors(folder / archive.vectors)}
        with chdir(folder if archive.network else folder.parent):
            yield archive.network or folder.name, vectors
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def checkpoint_seconds() -> float:
    """How often an audit writes a checkpoint: $EVENHAND_CHECKPOINT_SECONDS, or as often as usual."""
    from evenhand.runs.checkpoints import SECONDS

    given = os.environ.get("EVENHAND_CHECKPOINT_SECONDS", "")
    try:
        seconds = float(given or SECONDS)
    except ValueError:
        seconds = -1.0
    if not seconds >= 0:
        raise EvenhandError(f"EVENHAND_CHECKPOINT_SECONDS is a number of seconds from 0; '{given}' is not.")
    return seconds


if __name__ == "__main__":
    main()
