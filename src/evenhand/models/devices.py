"""Where models run, and with how many threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from evenhand.errors import EvenhandError


def choose_device(name: str) -> torch.device:
    """`auto` takes a CUDA device where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise EvenhandError(f"'{name}' is not a device. Use auto, cpu or cuda.") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise EvenhandError("There is no CUDA device on this machine. Use --device cpu or auto.")
    return device


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """On small networks torch's threads cost more than they bring, and on a busy machine they collapse.

    One thread also adds up in one order, so training gives the same weights each time.
    """
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
