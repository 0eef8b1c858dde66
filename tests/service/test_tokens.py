"""Tokens: whose they are, what they allow and when they end. On both databases."""

from datetime import timedelta
from typing import Any

import pytest

from evenhand.errors import EvenhandError
from evenhand.service.settings import Service
from evenhand.service.storage.accounts import Accounts
from evenhand.service.storage.projects import Person, Projects
from evenhand.service.storage.tables import Token
from tests.worlds.accounts import OTHER, earlier

pytest_plugins = ["tests.worlds.service", "tests.worlds.accounts"]


def test_a_token_says_whose_it_is_where_it_counts_and_what_it_allows(
    service: Service, accounts: Accounts, ben: Person
) -> None:
    token, secret = accounts.add_token(ben, "default", "viewer", " night\tly ", 90)
    assert secret.startswith("evh_")
    assert (token.name, token.role, token.project, token.used) == ("night ly", "viewer", "default", None)
    assert token.expires - token.created == timedelta(days=90)
    found = accounts.by_token(secret)
    assert found is not None
    assert (found[0], found[1].id, found[2]) == (ben, token.id, "viewer")
    first = accounts.tokens(ben)[0].used
    assert first is not None
    accounts.by_token(secret)
    assert accounts.tokens(ben)[0].used == first
    earlier(service, Token, timedelta(minutes=1), "used")
    accounts.by_token(secret)
    later = accounts.tokens(ben)[0].used
    assert later is not None
    assert later > first - timedelta(minutes=1)


def test_a_token_expires(service: Service, accounts: Accounts, ben: Person) -> None:
    _, secret = accounts.add_token(ben, "default", "viewer", "ci", 1)
    earlier(service, Token, timedelta(hours=23, minutes=59), "expires")
    assert accounts.by_token(secret) is not None
    earlier(service, Token, timedelta(minutes=1), "expires")
    assert accounts.by_token(secret) is None


def test_a_token_is_revoked_by_its_owner_or_by_whoever_may(accounts: Accounts, anna: Person, ben: Person) -> None:
    first, secret = accounts.add_token(ben, "default", "viewer", "first", 1)
    second, other = accounts.add_token(ben, "default", "viewer", "second", 1)
    for known_as in (first.id, "none", "\0"):
        with pytest.raises(EvenhandError, match="There is no token"):
            accounts.revoke_token(known_as, anna)
    assert accounts.by_token(secret) is not None
    revoked = accounts.revoke_token(first.id, ben)
    assert accounts.by_token(secret) is None
    assert accounts.revoke_token(first.id, None).revoked == revoked.revoked is not None
    accounts.revoke_token(second.id, None)
    assert accounts.by_token(other) is None
    assert {token.name for token in accounts.tokens(ben)} == {"first", "second"}


@pytest.mark.parametrize("change", ["password", "disabled"])
def test_who_is_shut_out_keeps_no_token(service: Service, accounts: Accounts, ben: Person, change: str) -> None:
    _, secret = accounts.add_token(ben, "default", "viewer", "ci", 1)
    before, _ = accounts.add_token(ben, "default", "viewer", "revoked before", 1)
    other = accounts.add_token(Person(accounts.user("anna").id, "anna", True), "default", "viewer", "other's", 1)[1]
    revoked = accounts.revoke_token(before.id, ben).revoked
    if change == "password":
        accounts.set_password("ben", OTHER)
    else:
        accounts.set_disabled("ben", True)
        accounts.set_disabled("ben", False)
    assert accounts.by_token(secret) is None
    assert accounts.by_token(other) is not None
    assert {token.name: token.revoked for token in accounts.tokens(ben)}["revoked before"] == revoked
    _, new = accounts.add_token(ben, "default", "viewer", "new", 1)
    assert accounts.by_token(new) is not None


def test_a_token_never_allows_more_than_its_user_may_now(service: Service, accounts: Accounts, ben: Person) -> None:
    _, secret = accounts.add_token(ben, "default", "auditor", "ci", 1)

    def allowed() -> str | None:
        found = accounts.by_token(secret)
        return None if found is None else found[2]

    assert allowed() == "auditor"
    accounts.set_role("ben", "default", "viewer")
    assert allowed() == "viewer"
    accounts.set_role("ben", "default", None)
    assert allowed() is None
    accounts.set_admin("ben", True)
    assert allowed() == "auditor"
    accounts.set_admin("ben", False)
    assert allowed() is None


def test_an_admins_token_is_an_admins_no_longer_than_its_user(accounts: Accounts, anna: Person, ben: Person) -> None:
    _, secret = accounts.add_token(anna, "default", "admin", "ci", 1)
    accounts.set_admin(ben.name, True)
    accounts.set_role("anna", "default", "viewer")
    found = accounts.by_token(secret)
    assert found is not None
    assert found[2] == "admin"
    accounts.set_admin("anna", False)
    found = accounts.by_token(secret)
    assert found is not None
    assert found[2] == "viewer"


def test_a_token_is_made_by_what_its_user_may_now(accounts: Accounts, anna: Person, ben: Person) -> None:
    accounts.set_admin(ben.name, True)
    accounts.set_admin(anna.name, False)  # whoever has asked may not know yet
    with pytest.raises(EvenhandError, match="'anna' has no role"):
        accounts.add_token(anna, "default", "viewer", "ci", 1)
    accounts.delete_user(anna.name)
    with pytest.raises(EvenhandError, match="'anna' has no role"):
        accounts.add_token(anna, "default", "viewer", "ci", 1)


def test_with_its_project_a_token_goes(service: Service, accounts: Accounts, anna: Person) -> None:
    projects = Projects(service.database, service.home)
    loans = projects.add("loans")
    _, secret = accounts.add_token(anna, loans.id, "viewer", "ci", 1)
    _, other = accounts.add_token(anna, "default", "viewer", "other", 1)
    projects.delete(loans.id)
    assert accounts.by_token(secret) is None
    assert accounts.by_token(other) is not None
    assert [token.name for token in accounts.tokens(None)] == ["other"]


def test_tokens_that_cannot_be_are_refused(accounts: Accounts, ben: Person) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"days": 0}, "Choose 1 to 366"),
        ({"days": 367}, "Choose 1 to 366"),
        ({"name": " \n"}, "needs a name"),
        ({"name": "x" * 101}, "needs a name"),
        ({"role": "admin"}, "'ben' is only auditor in this project"),
        ({"role": "owner"}, "There is no role 'owner'"),
        ({"project_id": "none"}, "'ben' has no role"),
        ({"project_id": "\0"}, "'ben' has no role"),
    ]
    sound: dict[str, Any] = {"project_id": "default", "role": "auditor", "name": "ci", "days": 90}
    for changes, words in wrong:
        with pytest.raises(EvenhandError, match=words):
            accounts.add_token(ben, **sound | changes)
    assert accounts.tokens(None) == []
    accounts.add_token(ben, **sound)
