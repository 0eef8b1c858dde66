"""Users and their roles keep their promises, on SQLite and on PostgreSQL alike."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from argon2 import PasswordHasher
from sqlalchemy import event, select
from sqlalchemy.orm import Session

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service
from evenhand.service.storage import passwords
from evenhand.service.storage.accounts import Accounts
from evenhand.service.storage.log import Log
from evenhand.service.storage.passwords import SignInRefused
from evenhand.service.storage.projects import ROLES, Projects, Role, at_least
from evenhand.service.storage.tables import Member, SignIn, Token, User
from tests.worlds.accounts import GOOD, OTHER, everything_kept

pytest_plugins = ["tests.worlds.service", "tests.worlds.accounts"]

HERE = "10.0.0.1"


def rows(service: Service, table: Any) -> list[Any]:
    with service.database.reading() as session:
        return list(session.scalars(select(table)))


# Names and passwords.


def test_what_cannot_be_a_name_is_refused(accounts: Accounts) -> None:
    for number, name in enumerate(["", " ", "a b", "ä", "-a", "a/b", "a\0", "a\nb", "x" * 101, "\ud800"]):
        with pytest.raises(EvenhandError, match=r"cannot be a user's name\. A name has 1 to 100"):
            accounts.add_user(name, GOOD)
        with pytest.raises(EvenhandError, match="There is no user"):
            accounts.user(name)
        with pytest.raises(SignInRefused, match="name or the password is wrong"):
            accounts.sign_in(name, GOOD, f"10.0.1.{number}")
    assert not accounts.any()


@pytest.mark.parametrize(
    ("password", "words"),
    [
        ("short", "at least 12 characters; this one has 5"),
        ("x" * 11, "at least 12"),
        ("x" * 201, "at most 200"),
        ("Anna.Example", "is the user's name"),
    ],
    ids=["short", "almost", "long", "name"],
)
def test_passwords_that_are_easily_guessed_are_refused(accounts: Accounts, password: str, words: str) -> None:
    with pytest.raises(EvenhandError, match=words):
        accounts.add_user("anna.example", password)
    assert not accounts.any()
    accounts.add_user("anna.example", GOOD)
    with pytest.raises(EvenhandError, match=words):
        accounts.set_password("anna.example", password)
    accounts.sign_in("anna.example", GOOD, HERE)


def test_long_passwords_of_any_letters_are_taken(accounts: Accounts) -> None:
    for number, password in enumerate(["x" * 12, "x" * 200, "пароль из слов", "🐎🔋" * 6, " spaces  are kept "]):
        accounts.add_user(f"anna{number}", password)
        accounts.sign_in(f"anna{number}", password, HERE)
        with pytest.raises(SignInRefused):
            accounts.sign_in(f"anna{number}", password.strip()[:-1], HERE)


def test_a_letter_is_the_same_however_it_is_composed(accounts: Accounts) -> None:
    accounts.add_user("anna", "caf\N{LATIN SMALL LETTER E WITH ACUTE} au lait bien")
    secret = accounts.sign_in("anna", "cafe\N{COMBINING ACUTE ACCENT} au lait bien", HERE)
    assert accounts.signed_in(secret) is not None


def test_half_a_letter_is_a_wrong_password_and_no_accident(accounts: Accounts) -> None:
    accounts.add_user("anna", GOOD)
    with pytest.raises(SignInRefused):
        accounts.sign_in("anna", "\ud800" * 12, HERE)


def test_names_are_the_same_in_capitals(accounts: Accounts) -> None:
    made = accounts.add_user(" Anna.B@Example.org ", GOOD)
    assert made.name == "anna.b@example.org"
    with pytest.raises(EvenhandError, match=r"There is a user 'anna\.b@example\.org' already"):
        accounts.add_user("ANNA.B@example.org", GOOD)
    assert accounts.user("Anna.B@example.ORG").id == made.id
    accounts.sign_in("ANNA.B@EXAMPLE.ORG", GOOD, HERE)


def test_of_a_password_only_argon2s_hash_is_kept(service: Service, accounts: Accounts) -> None:
    person = accounts.add_user("anna", GOOD, admin=True)
    secret = accounts.sign_in("anna", GOOD, HERE)
    _, token = accounts.add_token(person, "default", "admin", "ci", 1)
    accounts.set_password("anna", OTHER)
    with pytest.raises(SignInRefused):
        accounts.sign_in(GOOD, OTHER, HERE)  # the password typed into the wrong field
    assert accounts.user("anna").password.startswith("$argon2id$")
    kept = everything_kept(service)
    assert "anna" in kept
    for hidden in (GOOD, OTHER, secret, token, token.removeprefix("evh_")):
        assert hidden not in kept


def test_a_hash_is_made_anew_when_the_parameters_change(accounts: Accounts, monkeypatch: pytest.MonkeyPatch) -> None:
    accounts.add_user("anna", GOOD)
    before = accounts.user("anna").password
    accounts.sign_in("anna", GOOD, HERE)
    assert accounts.user("anna").password == before
    monkeypatch.setattr(passwords, "HASHER", PasswordHasher(time_cost=2, memory_cost=16, parallelism=1))
    accounts.sign_in("anna", GOOD, HERE)
    after = accounts.user("anna").password
    assert "m=16,t=2" in after
    accounts.sign_in("anna", GOOD, HERE)
    assert accounts.user("anna").password == after


def test_new_hashes_cost_what_is_recommended() -> None:
    assert (passwords.HASHER.memory_cost, passwords.HASHER.time_cost) >= (64 * 1024, 3)  # RFC 9106, second choice


# Roles.


@pytest.mark.parametrize("role", [None, *ROLES], ids=str)
@pytest.mark.parametrize("wanted", ROLES)
def test_each_role_may_do_what_those_before_it_may(role: Role | None, wanted: Role) -> None:
    order = [None, "viewer", "auditor", "admin"]
    assert at_least(role, wanted) == (order.index(role) >= order.index(wanted))


def test_roles_are_given_per_project(service: Service, accounts: Accounts) -> None:
    projects = Projects(service.database, service.home)
    loans, people = projects.add("loans"), projects.add("people")
    anna, ben = accounts.add_user("anna", GOOD), accounts.add_user("ben", GOOD, admin=True)
    assert accounts.projects_of(anna) == []
    accounts.set_role("anna", people.id, "viewer")
    accounts.set_role("anna", loans.id, "viewer")
    accounts.set_role("anna", loans.id, "auditor")
    assert [(project.name, role) for project, role in accounts.projects_of(anna)] == [
        ("loans", "auditor"),
        ("people", "viewer"),
    ]
    assert [(user.name, role) for user, role in accounts.members(loans.id)] == [("anna", "auditor")]
    assert [accounts.role_in(anna, known) for known in (loans.id, people.id, "default")] == ["auditor", "viewer", None]
    assert [(project.name, role) for project, role in accounts.projects_of(ben)] == [
        (name, "admin") for name in ("default", "loans", "people")
    ]
    assert [accounts.role_in(ben, known) for known in (loans.id, "none", "\0")] == ["admin", None, None]
    accounts.set_role("anna", loans.id, None)
    accounts.set_role("anna", loans.id, None)
    assert accounts.role_in(anna, loans.id) is None


def test_a_role_needs_a_user_a_project_and_a_sound_name(accounts: Accounts) -> None:
    accounts.add_user("anna", GOOD)
    wrong: list[tuple[tuple[Any, Any, Any], str]] = [
        (("ben", "default", "viewer"), "There is no user 'ben'"),
        (("anna", "none", "viewer"), "There is no project 'none'"),
        (("anna", "default", "admin"), "There is no role in a project 'admin'"),
        (("anna", "default", "auditer"), "Did you mean 'auditor'"),
    ]
    for arguments, words in wrong:
        with pytest.raises(EvenhandError, match=words):
            accounts.set_role(*arguments)
    assert accounts.members("default") == []


def test_users_are_listed_by_name(accounts: Accounts) -> None:
    for name in ("carl", "anna", "ben"):
        accounts.add_user(name, GOOD)
    assert [user.name for user in accounts.users()] == ["anna", "ben", "carl"]
    assert (accounts.any(), accounts.has_admin()) == (True, False)
    accounts.set_admin("ben", True)
    assert accounts.has_admin()


# The last admin.

DEEDS: dict[str, Callable[[Accounts, str], None]] = {
    "demoted": lambda accounts, name: accounts.set_admin(name, False),
    "disabled": lambda accounts, name: accounts.set_disabled(name, True),
    "deleted": lambda accounts, name: accounts.delete_user(name),
}


@pytest.mark.parametrize("deed", DEEDS)
def test_the_last_admin_is_kept(accounts: Accounts, deed: str) -> None:
    accounts.add_user("anna", GOOD, admin=True)
    accounts.add_user("ben", GOOD, admin=True)
    accounts.add_user("carl", GOOD)
    accounts.set_disabled("ben", True)  # an admin who cannot sign in is none
    with pytest.raises(EvenhandError, match=r"'anna' is the last admin\. Make another user an admin first"):
        DEEDS[deed](accounts, "anna")
    assert accounts.has_admin()
    DEEDS[deed](accounts, "carl")
    accounts.set_disabled("ben", False)
    DEEDS[deed](accounts, "anna")
    assert accounts.has_admin()


@pytest.mark.parametrize(
    ("first", "second"), [("demoted", "demoted"), ("disabled", "deleted"), ("deleted", "disabled")]
)
def test_of_two_admins_who_remove_each_other_at_once_one_stays(accounts: Accounts, first: str, second: str) -> None:
    """The second one starts when the first is about to commit."""
    accounts.add_user("anna", GOOD, admin=True)
    accounts.add_user("ben", GOOD, admin=True)
    refused: list[EvenhandError] = []

    def remove_anna() -> None:
        try:
            DEEDS[second](accounts, "anna")
        except EvenhandError as error:
            refused.append(error)

    other = threading.Thread(target=remove_anna)

    def before_commit(_: Session) -> None:
        other.start()
        other.join(0.3)  # the result is the same without it, but a missing lock would not show so surely

    event.listen(Session, "before_commit", before_commit, once=True)
    DEEDS[first](accounts, "ben")
    other.join()
    assert ["last admin" in str(error) for error in refused] == [True]
    assert accounts.has_admin()
    assert accounts.user("anna").admin


# What goes with a user.


def test_with_a_user_go_roles_sign_ins_and_tokens_but_not_the_log(service: Service, accounts: Accounts) -> None:
    accounts.add_user("keeper", GOOD, admin=True)
    anna = accounts.add_user("anna", GOOD)
    accounts.set_role("anna", "default", "auditor")
    secret = accounts.sign_in("anna", GOOD, HERE)
    _, token = accounts.add_token(anna, "default", "viewer", "ci", 1)
    Log(service.database).note("uploaded", user="anna", project="default", subject="table.csv")
    accounts.delete_user("anna")
    assert accounts.signed_in(secret) is None
    assert accounts.by_token(token) is None
    assert [rows(service, table) for table in (Member, SignIn, Token)] == [[], [], []]
    assert [user.name for user in rows(service, User)] == ["keeper"]
    assert [entry.action for entry in Log(service.database).entries(user="anna")] == ["uploaded", "signed in"]
    with pytest.raises(EvenhandError, match="There is no user 'anna'"):
        accounts.delete_user("anna")


def test_a_new_user_of_an_old_name_gets_nothing_of_the_old_one(accounts: Accounts) -> None:
    old = accounts.add_user("anna", GOOD)
    accounts.set_role("anna", "default", "auditor")
    accounts.delete_user("anna")
    new = accounts.add_user("anna", OTHER)
    assert new.id != old.id
    assert accounts.projects_of(new) == []
    with pytest.raises(SignInRefused):
        accounts.sign_in("anna", GOOD, HERE)
