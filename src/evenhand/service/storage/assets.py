"""Data sets and models that people have uploaded: kept, listed, described, deleted."""

from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path
from typing import IO, Any, TypeVar

from sqlalchemy import select, tuple_
from sqlalchemy.orm import Session

from evenhand.choices import Domain
from evenhand.errors import EvenhandError
from evenhand.service.requests import is_id
from evenhand.service.storage.database import Database
from evenhand.service.storage.home import Home
from evenhand.service.storage.log import one_line
from evenhand.service.storage.projects import hold_project
from evenhand.service.storage.runs import OVER
from evenhand.service.storage.tables import DataFile, ModelFile, Run
from evenhand.service.storage.uploads import (
    DESCRIPTION,
    Upload,
    check_description,
    check_model,
    check_schema,
    check_table,
    data_file,
    model_file,
    receive_all,
)

Source = Upload | IO[bytes] | Iterable[bytes]
File = TypeVar("File", DataFile, ModelFile)
After = tuple[datetime, str] | None
LONGEST_NAME = 200
ALONE, SHARED = {"read": False}, {"read": True}  # how an entry is locked until the transaction ends


class InUseError(EvenhandError):
    """A run that is not over needs it."""


class Assets:
    """The uploaded files of a service. A project that is not theirs does not see them; None stands for all."""

    def __init__(self, database: Database, home: Home) -> None:
        self.database, self.home = database, home

    def receive(self, limit: int) -> Upload:
        """A place to write a file to, chunk by chunk, which `add_dataset` and `add_model` take as their stream."""
        return Upload(self.home, limit)

    def add_dataset(
        self, project: str, name: str, stream: Source, filename: str, limit: int, domain: Domain = "table"
    ) -> DataFile:
        """Keep a table or texts. Of `filename` only the suffix is used."""
        upload = receive_all(self.home, stream, limit)
        try:
            path = upload.finish(data_file(filename, domain))
            rows = check_table(path, limit)
            entry = DataFile(**self._entry(project, name, upload, path), rows=rows, schema_text=None, domain=domain)
            return self._kept(entry, upload, self.home.dataset(upload.id))
        except BaseException:
            upload.abandon()
            raise

    def add_model(
        self,
        project: str,
        name: str,
        stream: Source,
        filename: str,
        limit: int,
        description: bytes | None = None,
        check_archive: Callable[[Path], object] = lambda path: None,
    ) -> ModelFile:
        """Keep a model. `description` is the .json beside a .safetensors file; it may come later (`describe_model`).

        `check_archive` looks into a .zip, which is no work for the process that keeps it.
        """
        upload = receive_all(self.home, stream, limit)
        try:
            path = upload.finish(model_file(filename))
            check_model(path)
            if path.suffix == ".zip":
                check_archive(path)
            if description is not None:
                self._describe(path, description)
            return self._kept(ModelFile(**self._entry(project, name, upload, path)), upload, self.home.model(upload.id))
        except BaseException:
            upload.abandon()
            raise

    def set_schema(self, dataset_id: str, text: str, project: str | None = None) -> DataFile:
        """Say what a data set's columns mean, in TOML; it is checked first."""
        check_schema(text, self.dataset(dataset_id, project).file)
        with self.database.writing() as session:
            entry = self._found(session, DataFile, dataset_id, project, locked=ALONE)
            entry.schema_text = text
            return entry

    def set_columns(self, dataset_id: str, columns: str, rows: int, project: str | None = None) -> DataFile:
        """Say which columns of texts are which, as `CorpusFacts` writes it; whoever calls has looked at the file."""
        with self.database.writing() as session:
            entry = self._found(session, DataFile, dataset_id, project, locked=ALONE)
            entry.schema_text, entry.rows = columns, rows
            return entry

    def describe_model(self, model_id: str, description: bytes, project: str | None = None) -> ModelFile:
        """Add the description of a .safetensors file: the .json that evenhand wrote beside it."""
        entry = self.model(model_id, project)
        self._describe(self.model_path(entry), description)
        return entry

    def is_described(self, model: ModelFile) -> bool:
        """Whether nothing more is needed to open the model."""
        path = self.model_path(model)
        return path.suffix != ".safetensors" or path.with_name(DESCRIPTION).is_file()

    def dataset_path(self, dataset: DataFile) -> Path:
        """Where a data set is."""
        return self.home.dataset(dataset.id) / dataset.file

    def model_path(self, model: ModelFile) -> Path:
        """Where a model is."""
        return self.home.model(model.id) / model.file

    def datasets(self, project: str | None = None, after: After = None, limit: int = 50) -> list[DataFile]:
        """Data sets from the newest to the oldest; `after` is the creation and the id of the last one seen."""
        return self._listed(DataFile, project, after, limit)

    def models(self, project: str | None = None, after: After = None, limit: int = 50) -> list[ModelFile]:
        """Models, in the same way."""
        return self._listed(ModelFile, project, after, limit)

    def dataset(self, dataset_id: str, project: str | None = None) -> DataFile:
        """One data set."""
        with self.database.reading() as session:
            return self._found(session, DataFile, dataset_id, project)

    def model(self, model_id: str, project: str | None = None) -> ModelFile:
        """One model."""
        with self.database.reading() as session:
            return self._found(session, ModelFile, model_id, project)

    def delete_dataset(self, dataset_id: str, project: str | None = None) -> None:
        """Delete a data set and its file, unless a run that is not over needs it."""
        self._delete(DataFile, "dataset", dataset_id, project)
        self.home.remove(self.home.dataset(dataset_id))

    def delete_model(self, model_id: str, project: str | None = None) -> None:
        """Delete a model and its files, unless a run that is not over needs it."""
        self._delete(ModelFile, "model", model_id, project)
        self.home.remove(self.home.model(model_id))

    def hold(self, session: Session, project: str, config: dict[str, Any]) -> None:
        """Keep the uploads that a run names from being deleted until the transaction has made the run, or refuse it."""
        data, model = str(config.get("dataset")), str(config.get("model"))
        if is_id(data):
            self._found(session, DataFile, data, project, locked=SHARED)
        if is_id(model):
            self._found(session, ModelFile, model, project, locked=SHARED)

    def _entry(self, project: str, name: str, upload: Upload, path: Path) -> dict[str, Any]:
        shown = one_line(name)
        if not shown:
            raise EvenhandError("A name is missing. Give one, so that the file can be found again.")
        return {
            "id": upload.id, "project": project, "name": shown[:LONGEST_NAME], "file": path.name, "size": upload.size,
            "sha256": upload.sha256,
        }  # fmt: skip

    def _kept(self, entry: File, upload: Upload, folder: Path) -> File:
        """Put the folder in its place, then commit the entry.

        So what a crash leaves is a folder to be swept away, never an entry without its file. For the same reason the
        folder stays where nobody can say whether the commit arrived.
        """
        with self.database.writing() as session:
            hold_project(session, entry.project)  # it may have been deleted while the file came
            entry.created = self.database.now(session)
            session.add(entry)
            session.flush()
            upload.move_to(folder)
        return entry

    def _describe(self, model: Path, description: bytes) -> None:
        if model.suffix != ".safetensors":
            raise EvenhandError(f"A model in {model.suffix} needs no description; only .safetensors does.")
        check_description(description)
        from evenhand.files import write_text

        write_text(model.with_name(DESCRIPTION), description.decode("utf-8"))

    def _found(
        self,
        session: Session,
        table: type[File],
        known_as: str,
        project: str | None,
        locked: dict[str, bool] | None = None,
    ) -> File:
        entry = session.get(table, known_as, with_for_update=locked)
        if entry is None or (project is not None and entry.project != project):
            kind = "data set" if table is DataFile else "model"
            raise EvenhandError(f"There is no {kind} '{known_as[:80]}'.")
        return entry

    def _listed(self, table: type[File], project: str | None, after: After, limit: int) -> list[File]:
        wanted = select(table).order_by(table.created.desc(), table.id.desc()).limit(limit)
        if project is not None:
            wanted = wanted.where(table.project == project)
        if after is not None:
            wanted = wanted.where(tuple_(table.created, table.id) < after)
        with self.database.reading() as session:
            return list(session.scalars(wanted))

    def _delete(self, table: type[File], role: str, known_as: str, project: str | None) -> None:
        with self.database.writing() as session:
            entry = self._found(session, table, known_as, project, locked=ALONE)
            waiting = select(Run.id, Run.config).where(Run.state.not_in(OVER), Run.project == entry.project)
            users = [run for run, config in session.execute(waiting) if config.get(role) == known_as]
            if users:
                raise InUseError(f"The run {users[0]} needs it. Cancel that run first, or wait until it is over.")
            session.delete(entry)
