"""What a run's own process may take: memory, processor time, no network.

Each function says what the platform did not allow. Nothing here imports what is heavy: the network has to be given up
while the process still has one thread.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
PR_SET_PDEATHSIG = 1
GRACE_SECONDS = 5  # between the signal that says why and the one that cannot be caught
STEPS_BACK = 5  # of 19: a third of the processor where others want it too, and all of it where nobody does


def leave_network() -> str | None:
    """Move this process into a network of its own, in which there is nobody; returns why it could not be done.

    Root may do so at once; others need a user namespace of their own, which some systems forbid.
    """
    if sys.platform != "linux":
        return f"A run's network cannot be cut off on {sys.platform}."
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(CLONE_NEWNET) == 0:
        return None
    user, group = os.getuid(), os.getgid()
    if library.unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0:
        _stay(user, group)
        return None
    return f"The run's network could not be cut off: {os.strerror(ctypes.get_errno())}."


def _stay(user: int, group: int) -> None:
    """Keep one's own name in the new namespace; without it files would seem to belong to nobody."""
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        try:
            Path(f"/proc/self/{file}").write_text(text)
        except OSError:  # names only: access does not depend on it
            return


def end_with_parent() -> None:
    """Let the system end this process when its worker dies; one that is paused cannot notice by itself."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))


def let_others_go_first() -> None:
    """Let the system prefer other processes to this one: answers to people come before searches.

    Linux may weigh sessions against each other, and only within one of them how nice a process is; so a process with a
    session of its own says it for the session too.
    """
    os.nice(STEPS_BACK)
    if sys.platform == "linux" and os.getsid(0) == os.getpid():
        with suppress(OSError):  # many systems weigh by other groups, or not at all
            Path("/proc/self/autogroup").write_text(str(STEPS_BACK))


def limit_processor(seconds: float) -> str | None:
    """End this process by SIGXCPU when it has used so much processor time; returns why that could not be done."""
    return _limit("RLIMIT_CPU", max(1, int(seconds)), GRACE_SECONDS)


def limit_memory(size: int) -> str | None:
    """Let this process take so many bytes more than it has now; returns why that could not be done.

    What the libraries have mapped until now is no fault of the run and does not count.
    """
    mapped = _mapped()
    if mapped is None:
        return f"A run's memory cannot be limited on {sys.platform}."
    return _limit("RLIMIT_AS", mapped + size)


def _mapped() -> int | None:
    """Bytes of address space that this process has."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _limit(name: str, value: int, more: int = 0) -> str | None:
    """Set a limit, and `more` above it one that cannot be ignored."""
    try:
        import resource
    except ImportError:
        return f"{name} cannot be set on {sys.platform}."
    which = getattr(resource, name)
    _, hard = resource.getrlimit(which)
    most = value + more if hard == resource.RLIM_INFINITY else min(value + more, hard)
    try:
        resource.setrlimit(which, (min(value, most), most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a memory image would hold the data
    except (OSError, ValueError) as error:
        return f"{name} could not be set: {error}."
    return None
