"""How often tests do what chance decides: a few times in `make test`, by the dozen in `make soak`."""

import os

SOAK = os.environ.get("EVENHAND_SOAK") == "1"


def times(usual: int, soak: int) -> int:
    """How often: `usual`, or `soak` under `make soak`, which runs the tests that are marked with it."""
    return soak if SOAK else usual
