"""Where models run, and with how many threads."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from evenhand.errors import EvenhandError


def choose_device(name: str) -> torch.device:
    """`auto` takes a CUDA device where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    cuda = re.fullmatch("cuda(?::([0-9]{1,3}))?", name)
    if cuda is None:
        raise EvenhandError(f"'{name}' is not a device. Use auto, cpu, cuda, or cuda:N for the CUDA device N.")
    if not torch.cuda.is_available():
        raise EvenhandError("There is no CUDA device on this machine. Use --device cpu or auto.")
    if cuda[1] is None:
        return torch.device("cuda")
    if int(cuda[1]) >= torch.cuda.device_count():
        raise EvenhandError(
            f"There is no device '{name}': this machine has cuda:0 to cuda:{torch.cuda.device_count() - 1}."
        )
    return torch.device("cuda", int(cuda[1]))


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
