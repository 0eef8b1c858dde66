"""Names and passwords: which are taken, and how a password is kept: as argon2's hash of it, and nothing else."""

import re
import unicodedata
from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from evenhand.errors import EvenhandError

NAME = re.compile(r"[a-z0-9][a-z0-9._@-]{0,99}")
SHORTEST, LONGEST = 12, 200
HASHER = PasswordHasher()  # argon2id with the library's parameters, which follow RFC 9106


def plain_name(name: str) -> str:
    """A name as it is kept and compared: in small letters."""
    return name.strip().lower()


def checked_name(name: str) -> str:
    """A new user's name, in small letters; what is no name is refused."""
    found = plain_name(name)
    if NAME.fullmatch(found) is None:
        raise EvenhandError(
            f"{name[:100]!r} cannot be a user's name. A name has 1 to 100 letters a to z, digits or . _ @ - and begins "
            "with a letter or digit."
        )
    return found


def check_new_password(name: str, password: str) -> None:
    """Refuse a password that is easily guessed. Nothing else is asked of it: length is what counts."""
    if len(password) < SHORTEST:
        raise EvenhandError(f"Choose a password of at least {SHORTEST} characters; this one has {len(password)}.")
    if len(password) > LONGEST:
        raise EvenhandError(f"Choose a password of at most {LONGEST} characters; this one has {len(password):,}.")
    if plain_name(password) == plain_name(name):
        raise EvenhandError("The password is the user's name. Choose another one.")


def hashed(password: str) -> str:
    """What is kept of a password."""
    return HASHER.hash(_bytes(password))


def matches(stored: str | None, password: str) -> bool:
    """Whether a password is the one of the hash; without a hash the same work is done, and the answer is no.

    What is longer than a password can be is not even normalised, which takes very long for long texts.
    """
    nobody = _nobodys(HASHER)
    tried = b"too long" if len(password) > LONGEST else _bytes(password)
    known = None if len(password) > LONGEST else stored
    try:
        return HASHER.verify(known or nobody, tried) and known is not None
    except (VerificationError, InvalidHashError):
        return False


def is_outdated(stored: str) -> bool:
    """Whether a hash was made with other parameters than new ones are."""
    return HASHER.check_needs_rehash(stored)


@lru_cache(maxsize=1)
def _nobodys(hasher: PasswordHasher) -> str:
    """A hash to compare with where there is no user, so that an unknown name takes as long as a known one."""
    return hasher.hash(b"nobody's password")


def _bytes(password: str) -> bytes:
    """The same for a letter however the keyboard composes it; JSON can hold halves of letters, which UTF-8 cannot."""
    return unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
