"""Asking a library in one thread: on batches of a search its own threads cost more than they bring."""

import os
from collections.abc import Callable
from typing import Any

from threadpoolctl import ThreadpoolController


def in_one_thread(ask: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function with the thread pools of the libraries loaded so far, and of joblib, held at one thread.

    A boosted ensemble meets at a barrier after each tree, so on a busy machine two threads take several times as long
    as one. A forest that adds up its trees in the order in which threads finish would also give other last digits
    each time. Someone who sets OMP_NUM_THREADS knows better and is left alone.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return ask
    from joblib import parallel_config

    pools = ThreadpoolController()

    def alone(question: Any) -> Any:
        with pools.limit(limits=1), parallel_config(backend="sequential"):
            return ask(question)

    return alone
