import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from evenhand.data.dataset import Dataset, load_dataset
from evenhand.models.loading import BUILTIN
from evenhand.models.network import FeedForward, load_network

# The same examples in every run, and a busy machine is no failure. For other ones: --hypothesis-profile=others
settings.register_profile("usual", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("others", settings.get_profile("usual"), derandomize=False)
settings.load_profile("usual")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One test process more than there are cores: some tests wait most of their time for others."""
    return len(os.sched_getaffinity(0)) + 1 if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Whatever a test draws from the generators that all share, it draws in every run."""
    torch.manual_seed(0)
    np.random.seed(0)


@pytest.fixture(scope="session", autouse=True)
def _one_torch_thread() -> None:
    """Several test processes share the machine; torch's threads would fight."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> None:
    """Jobs in the background ignore it, and so would all processes that tests start and interrupt."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def _no_runs_in_the_users_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Commands keep their runs: those of tests, and of the processes that tests start, in a folder of the tests'."""
    with pytest.MonkeyPatch.context() as patch:
        if "EVENHAND_HOME" not in os.environ:
            patch.setenv("EVENHAND_HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("EVENHAND_DATABASE", raising=False)
        yield


@pytest.fixture(scope="module")
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests on small files must not find, or fill, the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENHAND_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def census() -> Dataset:
    return load_dataset("census")


@pytest.fixture(scope="session")
def census_network() -> FeedForward:
    return load_network(BUILTIN / "census")[0]


@pytest.fixture
def schema_file(tmp_path: Path) -> Path:
    """A user's own small table and schema."""
    (tmp_path / "people.csv").write_text(
        "id;sex;age;city;approved\n"
        + "".join(f"{i};{'fm'[i % 2]};{20 + i};{'XY'[i % 3 == 0]};{i % 2}\n" for i in range(40))
    )
    path = tmp_path / "people.toml"
    path.write_text(
        """
        name = "people"
        file = "people.csv"
        separator = ";"
        label = { column = "approved", values = ["0", "1"], favourable = "1" }

        [[attribute]]
        name = "sex"
        kind = "category"
        categories = ["f", "m"]
        words = ["female", "male"]
        protected = true

        [[attribute]]
        name = "age"
        kind = "number"
        width = 10
        domain = [2, 5]

        [[attribute]]
        name = "city"
        kind = "category"
        categories = ["X", "Y"]
        """
    )
    return path


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tiny transformers, one for each way to cut words into pieces."""
    from tests.worlds.tiny_transformer import KINDS, save_tiny

    return {kind: save_tiny(tmp_path_factory.mktemp(kind), kind) for kind in KINDS}


@pytest.fixture(scope="session", params=["wordpiece", "byte-level"])
def tiny_folder(request: pytest.FixtureRequest, tiny_folders: dict[str, Path]) -> Path:
    return tiny_folders[request.param]
