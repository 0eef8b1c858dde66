"""Signing in: what counts, how often it may be tried, and when it ends. On both databases."""

import threading
import unicodedata
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from argon2 import PasswordHasher
from sqlalchemy import select

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service
from evenhand.service.storage import accounts as account_storage
from evenhand.service.storage import passwords
from evenhand.service.storage.accounts import Accounts
from evenhand.service.storage.log import Log
from evenhand.service.storage.passwords import SignInRefused, TooManyTries
from evenhand.service.storage.projects import Person, Projects
from evenhand.service.storage.tables import LogEntry, SignIn
from tests.worlds.accounts import GOOD, OTHER, earlier

pytest_plugins = ["tests.worlds.service", "tests.worlds.accounts"]

HERE, THERE = "10.0.0.1", "10.0.0.2"
WRONG = "a wrong password"


def fail(accounts: Accounts, times: int, name: str = "anna", address: str = HERE) -> None:
    for _ in range(times):
        with pytest.raises(SignInRefused) as refused:
            accounts.sign_in(name, WRONG, address)
        assert not isinstance(refused.value, TooManyTries)


# Who may.


def test_an_unknown_name_and_a_wrong_password_cannot_be_told_apart(
    accounts: Accounts, anna: Person, ben: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts.set_disabled(ben.name, True)
    work: list[str] = []

    class Counting(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Any:  # noqa: A002 - as the library calls it
            work.append(str(hash).split("$p")[0])
            return super().verify(hash, password)

    monkeypatch.setattr(passwords, "HASHER", Counting(time_cost=1, memory_cost=8, parallelism=1))
    said = []
    for name, password in ((anna.name, WRONG), ("nobody", WRONG), (ben.name, GOOD), ("no name!", WRONG)):
        with pytest.raises(SignInRefused) as refused:
            accounts.sign_in(name, password, HERE)
        said.append((type(refused.value), str(refused.value)))
    assert set(said) == {(SignInRefused, "The name or the password is wrong.")}
    assert [words.split("$")[1:4] for words in work] == [["argon2id", "v=19", "m=8,t=1,p=1"]] * 4


def test_what_is_too_long_for_a_password_is_wrong_and_is_not_normalised(
    accounts: Accounts, anna: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    normalised: list[int] = []
    work: list[bool] = []

    class Counting(PasswordHasher):
        def verify(self, hash: str | bytes, password: str | bytes) -> Any:  # noqa: A002 - as the library calls it
            work.append(hash == accounts.user("anna").password)
            return super().verify(hash, password)

    def normalize(form: str, text: str) -> str:
        normalised.append(len(text))
        return unicodedata.normalize(form, text)  # type: ignore[arg-type]

    monkeypatch.setattr(passwords, "HASHER", Counting(time_cost=1, memory_cost=8, parallelism=1))
    monkeypatch.setattr(passwords, "unicodedata", SimpleNamespace(normalize=normalize))
    for password in ("e\N{COMBINING ACUTE ACCENT}" * 100 + "e", GOOD * 100_000, "x" * 200):
        fail_with(accounts, password)
    assert normalised == [200]
    assert work == [False, False, True]  # the same work, whatever came


def fail_with(accounts: Accounts, password: str) -> None:
    with pytest.raises(SignInRefused, match="The name or the password is wrong"):
        accounts.sign_in("anna", password, HERE)


def test_a_sign_in_is_noted_and_so_is_a_refusal(service: Service, accounts: Accounts, anna: Person) -> None:
    fail(accounts, 1)
    fail(accounts, 1, "My secret passphrase!")
    accounts.sign_in("anna", GOOD, THERE)
    found = [(entry.action, entry.user, entry.address) for entry in Log(service.database).entries()]
    assert found == [("signed in", "anna", THERE), ("sign-in refused", None, HERE), ("sign-in refused", "anna", HERE)]


def test_every_sign_in_has_a_secret_of_its_own(accounts: Accounts, anna: Person) -> None:
    first, second = accounts.sign_in("anna", GOOD, HERE), accounts.sign_in("anna", GOOD, HERE)
    assert first != second
    assert min(len(first), len(second)) >= 43  # 32 random bytes
    accounts.sign_out(first)
    accounts.sign_out("never was")
    assert accounts.signed_in(first) is None
    found = accounts.signed_in(second)
    assert found is not None
    assert found[0] == anna


def test_what_is_no_secret_is_nobodys(accounts: Accounts, anna: Person) -> None:
    right = accounts.sign_in(anna.name, GOOD, HERE)
    for secret in ("", "x", "\0", "\ud800", "x" * 10_000, right.swapcase(), f"{right} "):
        assert accounts.signed_in(secret) is None
        assert accounts.by_token(secret) is None
        assert accounts.by_token(f"evh_{secret}") is None


# How often.


def test_a_name_is_tried_from_one_address_five_times(service: Service, accounts: Accounts, anna: Person) -> None:
    fail(accounts, 5)
    with pytest.raises(TooManyTries, match="Try again in 15 minutes") as refused:
        accounts.sign_in("anna", GOOD, HERE)
    assert 800 < refused.value.seconds <= 900
    with pytest.raises(TooManyTries):
        accounts.check_password(" ANNA", GOOD, HERE)
    accounts.sign_in("anna", GOOD, THERE)
    fail(accounts, 1, "another")
    earlier(service, LogEntry, timedelta(minutes=14), "at")
    with pytest.raises(TooManyTries, match=r"in 1 minute\.") as refused:
        accounts.sign_in("anna", GOOD, HERE)
    assert 0 < refused.value.seconds <= 60
    earlier(service, LogEntry, timedelta(minutes=1), "at")
    accounts.sign_in("anna", GOOD, HERE)


def test_the_wait_ends_when_the_oldest_try_is_old(service: Service, accounts: Accounts, anna: Person) -> None:
    fail(accounts, 1)
    earlier(service, LogEntry, timedelta(minutes=10), "at")
    fail(accounts, 4)
    with pytest.raises(TooManyTries, match="in 5 minutes") as refused:
        accounts.sign_in(anna.name, GOOD, HERE)
    earlier(service, LogEntry, timedelta(seconds=refused.value.seconds), "at")
    fail(accounts, 1)
    with pytest.raises(TooManyTries) as refused:
        accounts.sign_in(anna.name, GOOD, HERE)
    assert 540 < refused.value.seconds < 660  # ten minutes, and as long as a slow machine took to try four times


def test_a_name_is_tried_from_everywhere_ten_times(service: Service, accounts: Accounts, anna: Person) -> None:
    for number in range(10):
        fail(accounts, 1, address=f"10.0.1.{number}")
    with pytest.raises(TooManyTries):
        accounts.sign_in(anna.name, GOOD, HERE)
    with pytest.raises(TooManyTries):
        accounts.sign_in(anna.name, GOOD, None)
    earlier(service, LogEntry, timedelta(minutes=15), "at")
    accounts.sign_in(anna.name, GOOD, HERE)


def test_an_address_tries_all_names_twenty_times(service: Service, accounts: Accounts, anna: Person) -> None:
    for number in range(20):
        fail(accounts, 1, f"name{number}" if number % 5 else f"no name {number}!")
    with pytest.raises(TooManyTries):
        accounts.sign_in(anna.name, GOOD, HERE)
    accounts.sign_in(anna.name, GOOD, THERE)
    earlier(service, LogEntry, timedelta(minutes=15), "at")
    accounts.sign_in(anna.name, GOOD, HERE)


def test_whoever_has_to_wait_fills_no_log_and_does_not_wait_longer(
    service: Service, accounts: Accounts, anna: Person
) -> None:
    fail(accounts, 5)
    for _ in range(3):
        with pytest.raises(TooManyTries):
            accounts.sign_in(anna.name, WRONG, HERE)
    assert len(Log(service.database).entries()) == 5


def test_tries_sent_all_at_once_do_not_slip_past_the_limit(accounts: Accounts, anna: Person) -> None:
    outcomes: list[type] = []
    start = threading.Barrier(12)

    def attempt() -> None:
        start.wait()
        try:
            accounts.sign_in(anna.name, WRONG, HERE)
        except SignInRefused as refused:
            outcomes.append(type(refused))

    threads = [threading.Thread(target=attempt) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Counter(outcomes) == {SignInRefused: 5, TooManyTries: 7}


def test_the_addresses_of_one_ipv6_network_count_as_one(accounts: Accounts, anna: Person) -> None:
    for number in range(5):
        fail(accounts, 1, address=f"2001:db8:1:2:{number:x}::{number:x}")
    with pytest.raises(TooManyTries):
        accounts.sign_in(anna.name, GOOD, "2001:db8:1:2:ffff::1")
    accounts.sign_in(anna.name, GOOD, "2001:db8:1:3::1")


def test_the_ways_to_write_an_address_count_as_one(accounts: Accounts, anna: Person) -> None:
    for address in (HERE, f"::ffff:{HERE}", HERE, "::FFFF:0a00:0001", HERE):
        fail(accounts, 1, address=address)
    with pytest.raises(TooManyTries):
        accounts.sign_in(anna.name, GOOD, HERE)


@pytest.mark.parametrize(
    ("known", "again"), [(HERE, HERE), ("2001:db8:1:2::1", "2001:db8:1:2::9")], ids=["ipv4", "ipv6"]
)
def test_nobody_is_shut_out_by_others_where_they_signed_in_lately(
    service: Service, accounts: Accounts, anna: Person, known: str, again: str
) -> None:
    accounts.sign_in(anna.name, GOOD, known)
    earlier(service, LogEntry, timedelta(days=6, hours=23), "at")
    for number in range(10):
        fail(accounts, 1, address=f"10.0.1.{number}")
    with pytest.raises(TooManyTries):
        accounts.sign_in(anna.name, GOOD, THERE)  # a place where they never were
    fail(accounts, 4, address=known)
    accounts.sign_in(anna.name, GOOD, again)
    fail(accounts, 1, address=again)
    with pytest.raises(TooManyTries):  # five wrong ones from there count all the same
        accounts.sign_in(anna.name, GOOD, known)


def test_a_place_is_forgotten_after_seven_days(service: Service, accounts: Accounts, anna: Person, ben: Person) -> None:
    accounts.sign_in(anna.name, GOOD, HERE)
    earlier(service, LogEntry, timedelta(days=7), "at")
    accounts.sign_in(ben.name, GOOD, HERE)  # another one's place
    for number in range(10):
        fail(accounts, 1, address=f"10.0.1.{number}")
    with pytest.raises(TooManyTries):
        accounts.sign_in(anna.name, GOOD, HERE)


def test_whoever_comes_when_too_many_wait_is_sent_away(
    accounts: Accounts, anna: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(stored: str | None, password: str) -> bool:
        entered.set()
        assert go_on.wait(60)
        return passwords.matches(stored, password)

    monkeypatch.setattr(passwords, "_WAITING", threading.BoundedSemaphore(1))
    monkeypatch.setattr(account_storage, "matches", slow)
    first = threading.Thread(target=accounts.sign_in, args=(anna.name, GOOD, HERE))
    first.start()
    assert entered.wait(60)
    with pytest.raises(
        TooManyTries, match=r"Too many people are signing in at this moment\. Try again in 1 minute\."
    ) as refused:
        accounts.sign_in("ben", GOOD, THERE)
    assert refused.value.seconds == 10
    go_on.set()
    first.join()
    accounts.sign_in(anna.name, GOOD, THERE)  # there is a place again
    assert passwords.MOST_WAITING < 40  # as many threads as a server has


def test_a_long_or_hostile_address_is_one_address(accounts: Accounts, anna: Person) -> None:
    fail(accounts, 5, address="\0\n" + "x" * 300)
    with pytest.raises(TooManyTries):
        accounts.sign_in(anna.name, GOOD, "\0\n" + "x" * 300)


# How long.


def test_a_sign_in_ends_twelve_hours_after_it_began(service: Service, accounts: Accounts, anna: Person) -> None:
    secret = accounts.sign_in(anna.name, GOOD, HERE)
    earlier(service, SignIn, timedelta(hours=11, minutes=59), "expires")
    assert accounts.signed_in(secret) is not None
    earlier(service, SignIn, timedelta(minutes=1), "expires")
    assert accounts.signed_in(secret) is None
    with pytest.raises(SignInRefused, match="Sign in again"):
        accounts.choose_project(secret, "default")


def test_a_sign_in_ends_after_two_hours_without_use(service: Service, accounts: Accounts, anna: Person) -> None:
    secret = accounts.sign_in(anna.name, GOOD, HERE)
    for _ in range(3):  # used in between
        earlier(service, SignIn, timedelta(hours=1, minutes=59), "seen")
        assert accounts.signed_in(secret) is not None
    earlier(service, SignIn, timedelta(hours=2), "seen")
    assert accounts.signed_in(secret) is None


def test_use_is_written_at_most_once_a_minute(service: Service, accounts: Accounts, anna: Person) -> None:
    def seen() -> Any:
        with service.database.reading() as session:
            return session.scalars(select(SignIn.seen)).one()

    secret = accounts.sign_in(anna.name, GOOD, HERE)
    first = seen()
    found = accounts.signed_in(secret)
    assert found is not None
    assert found[1].seen == seen() == first
    earlier(service, SignIn, timedelta(minutes=1), "seen")
    found = accounts.signed_in(secret)
    assert found is not None
    assert found[1].seen == seen() >= first


def test_a_look_that_is_no_use_does_not_keep_a_sign_in_alive(
    service: Service, accounts: Accounts, anna: Person
) -> None:
    secret = accounts.sign_in(anna.name, GOOD, HERE)
    for _ in range(2):
        earlier(service, SignIn, timedelta(minutes=59), "seen")
        assert accounts.signed_in(secret, touch=False) is not None
    earlier(service, SignIn, timedelta(minutes=2), "seen")
    assert accounts.signed_in(secret, touch=False) is None
    assert accounts.signed_in(secret) is None


def test_what_has_ended_is_removed_when_somebody_signs_in(service: Service, accounts: Accounts, anna: Person) -> None:
    for column, age in (("expires", 12), ("seen", 2)):
        accounts.sign_in(anna.name, GOOD, HERE)
        earlier(service, SignIn, timedelta(hours=age), column)
    accounts.sign_in(anna.name, GOOD, HERE)
    with service.database.reading() as session:
        assert len(list(session.scalars(select(SignIn)))) == 1


def test_a_new_password_ends_all_sign_ins_of_its_user_only(accounts: Accounts, anna: Person, ben: Person) -> None:
    of_anna, of_ben = accounts.sign_in(anna.name, GOOD, HERE), accounts.sign_in(ben.name, GOOD, HERE)
    accounts.check_password("anna", GOOD, HERE)
    accounts.set_password("Anna", OTHER)
    assert accounts.signed_in(of_anna) is None
    assert accounts.signed_in(of_ben) is not None
    fail(accounts, 1)
    with pytest.raises(SignInRefused):
        accounts.check_password("anna", GOOD, HERE)
    accounts.sign_in("anna", OTHER, HERE)


@pytest.mark.parametrize("change", ["password", "disabled", "deleted"])
def test_a_sign_in_during_a_change_does_not_outlive_it(
    accounts: Accounts, ben: Person, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """The password was right when it was looked at, and is not any more when the sign-in is written."""
    changes: dict[str, Callable[[], None]] = {
        "password": lambda: accounts.set_password("ben", OTHER),
        "disabled": lambda: accounts.set_disabled("ben", True),
        "deleted": lambda: accounts.delete_user("ben"),
    }

    def meanwhile(_: str) -> bool:
        changes[change]()
        return False

    monkeypatch.setattr(account_storage, "is_outdated", meanwhile)
    with pytest.raises(SignInRefused, match="name or the password is wrong"):
        accounts.sign_in(ben.name, GOOD, HERE)
    with accounts.database.reading() as session:
        assert list(session.scalars(select(SignIn))) == []


def test_a_disabled_users_sign_ins_and_tokens_stop(accounts: Accounts, ben: Person) -> None:
    secret = accounts.sign_in("ben", GOOD, HERE)
    _, token = accounts.add_token(ben, "default", "viewer", "ci", 1)
    accounts.set_disabled("ben", True)
    assert accounts.signed_in(secret) is None
    assert accounts.by_token(token) is None
    with pytest.raises(SignInRefused):
        accounts.sign_in("ben", GOOD, HERE)
    accounts.set_disabled("ben", False)
    assert accounts.signed_in(secret) is None
    assert accounts.by_token(token) is None  # revoked for good
    accounts.sign_in("ben", GOOD, HERE)


def test_a_browser_remembers_a_project_that_its_user_may_see(service: Service, accounts: Accounts, ben: Person) -> None:
    projects = Projects(service.database, service.home)
    loans, hidden = projects.add("loans"), projects.add("hidden")
    accounts.set_role("ben", loans.id, "viewer")
    secret = accounts.sign_in(ben.name, GOOD, HERE)
    accounts.choose_project(secret, loans.id)
    for other in (hidden.id, "none", "\0"):
        with pytest.raises(EvenhandError, match="or you have no role in it"):
            accounts.choose_project(secret, other)
    found = accounts.signed_in(secret)
    assert found is not None
    assert found[1].project == loans.id
    projects.delete(loans.id)
    found = accounts.signed_in(secret)
    assert found is not None
    assert found[1].project is None
