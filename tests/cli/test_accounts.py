"""`evenhand users` and `evenhand projects` as an administrator meets them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from evenhand.cli.projects import projects_app
from evenhand.cli.users import users_app
from evenhand.errors import EvenhandError
from evenhand.service.settings import Service
from evenhand.service.storage.passwords import SignInRefused
from evenhand.service.storage.projects import person_of
from tests.worlds.accounts import GOOD, OTHER, everything_kept
from tests.worlds.service import Cluster, small_run

pytest_plugins = ["tests.worlds.service", "tests.worlds.accounts"]

HERE = "10.0.0.1"
app = typer.Typer(rich_markup_mode="rich")
app.add_typer(users_app, name="users")
app.add_typer(projects_app, name="projects")


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cheap_hashes: None) -> None:
    """The user's own service must not be found, or made."""
    monkeypatch.setenv("EVENHAND_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("EVENHAND_DATABASE", raising=False)
    monkeypatch.setenv("COLUMNS", "160")


def evenhand(*arguments: str, code: int = 0, typed: str | bytes | None = None) -> str:
    """What a command prints on stdout; an error of the user's is raised."""
    done = CliRunner().invoke(app, arguments, input=typed)
    if isinstance(done.exception, EvenhandError):
        raise done.exception
    assert done.exit_code == code, (done.output, done.exception)
    return done.stdout


def printed_json(*arguments: str) -> Any:
    return json.loads(evenhand(*arguments, "--json"))


def add(name: str, *more: str) -> str:
    return evenhand("users", "add", name, "--password-stdin", *more, typed=f"{GOOD}\n")


USERS = ["add", "list", "password", "role", "admin", "disable", "enable", "delete", "token", "tokens", "revoke", "log"]
PROJECTS = ["add", "list", "rename", "delete"]


@pytest.mark.parametrize(
    "arguments",
    [["users"], ["projects"], *(["users", name] for name in USERS), *(["projects", name] for name in PROJECTS)],
    ids=" ".join,
)
def test_help_fits_80_columns_and_gives_examples(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = evenhand(*arguments, "--help")
    assert max(map(len, words.splitlines())) <= 80
    assert "evenhand " in words


def test_the_command_is_registered_and_a_mistake_ends_with_2(tmp_path: Path) -> None:
    """In a process of its own, which must not load the database's library before it is needed."""
    code = (
        "import sys; from evenhand.cli.main import main; assert 'sqlalchemy' not in sys.modules; "
        f"sys.argv = ['evenhand', 'users', 'delete', 'ada', '--home', {str(tmp_path / 'none')!r}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: There is no service in")
    assert not (tmp_path / "none").exists()


# Users.


def test_where_there_is_nothing_the_lists_say_so_and_make_nothing(tmp_path: Path) -> None:
    assert "There are no users" in evenhand("users", "list")
    assert "There is no service" in evenhand("projects", "list")
    assert printed_json("users", "list") == printed_json("projects", "list") == []
    for arguments in (["users", "log"], ["users", "tokens"], ["users", "revoke", "abcd"], ["projects", "delete", "x"]):
        with pytest.raises(EvenhandError, match="There is no service in"):
            evenhand(*arguments)
    assert not (tmp_path / "home").exists()


def test_the_first_user_is_told_what_changes(sqlite_service: Service) -> None:
    words = evenhand("users", "add", "Ada", "--admin", typed=f"{GOOD}\n{GOOD}\n")
    assert GOOD not in words
    assert "'ada' may sign in now." in words
    assert "After its next start the service asks everybody to sign in." in words
    sqlite_service.accounts.sign_in("ada", GOOD, HERE)
    assert "next start" not in add("ben")


def test_a_first_user_who_is_no_admin_is_not_enough() -> None:
    assert "does not start without an admin. Add one: evenhand users add NAME --admin" in add("ben")
    assert "without an admin" not in add("ada", "--admin")


def test_a_password_that_was_not_typed_the_same_twice_is_asked_for_again(sqlite_service: Service) -> None:
    evenhand("users", "add", "ada", typed=f"{GOOD}\n{OTHER}\n{GOOD}\n{GOOD}\n")
    with pytest.raises(SignInRefused):
        sqlite_service.accounts.sign_in("ada", OTHER, HERE)
    assert sqlite_service.accounts.signed_in(sqlite_service.accounts.sign_in("ada", GOOD, HERE)) is not None


def test_a_password_is_never_an_argument_nor_kept(sqlite_service: Service) -> None:
    for command in ("add", "password"):
        assert "--password " not in evenhand("users", command, "--help")
    add("ada", "--admin")
    evenhand("users", "password", "ada", "--password-stdin", typed=f"{OTHER}\r\nthe next line")
    sqlite_service.accounts.sign_in("ada", OTHER, HERE)
    secret = evenhand("users", "token", "ada", "--project", "default", "--name", "ci").strip()
    kept = everything_kept(sqlite_service)
    assert [hidden for hidden in (GOOD, OTHER, secret) if hidden in kept] == []


@pytest.mark.parametrize(
    ("arguments", "typed", "words"),
    [
        (["a b"], GOOD, "cannot be a user's name"),
        (["ada"], "short", "at least 12 characters"),
        (["ada"], "", "at least 12 characters"),
        (["ada"], b"\xff" * 12, "not UTF-8"),
        (["ada", "--role", "viewer"], GOOD, "both --project and --role"),
        (["ada", "--project", "default"], GOOD, "both --project and --role"),
        (["ada", "--project", "default", "--role", "none"], GOOD, "There is no role 'none'"),
        (["ada", "--project", "none", "--role", "viewer"], GOOD, "There is no project 'none'"),
        (["ada", "--project", "default", "--role", "viewer", "--admin"], GOOD, "An admin may do everything"),
    ],
    ids=["name", "short", "empty", "bytes", "role only", "project only", "no role", "no project", "admin"],
)
def test_users_that_cannot_be_are_refused(
    sqlite_service: Service, arguments: list[str], typed: str | bytes, words: str
) -> None:
    with pytest.raises(EvenhandError, match=words):
        evenhand("users", "add", "--password-stdin", *arguments, typed=typed)
    assert not sqlite_service.accounts.any()
    assert sqlite_service.log.entries() == []


def test_users_are_listed_with_what_they_may() -> None:
    evenhand("projects", "add", "loans")
    add("ada", "--admin")
    add("ben", "--project", "loans", "--role", "auditor")
    add("carl")
    evenhand("users", "disable", "carl")
    shown = [line.split("  ") for line in evenhand("users", "list").splitlines()[1:]]
    cells = [[cell.strip() for cell in line if cell.strip()][:3] for line in shown]
    assert cells == [
        ["ada", "admin", "may sign in"],
        ["ben", "auditor in loans", "may sign in"],
        ["carl", "nothing yet", "disabled"],
    ]
    listed = printed_json("users", "list")
    assert [(card["name"], card["admin"], card["disabled"]) for card in listed] == [
        ("ada", True, False),
        ("ben", False, False),
        ("carl", False, True),
    ]
    assert [role["role"] for role in listed[1]["roles"]] == ["auditor"]
    assert "password" not in json.dumps(listed)


def test_roles_are_given_and_taken(sqlite_service: Service) -> None:
    add("ben")
    assert evenhand("users", "role", "ben", "--project", "default", "--role", "viewer") == (
        "'ben' is viewer in 'default' now.\n"
    )
    assert [role for _, role in sqlite_service.accounts.members("default")] == ["viewer"]
    with pytest.raises(EvenhandError, match="viewer, auditor or none"):
        evenhand("users", "role", "ben", "--project", "default", "--role", "admin")
    assert "has no role in 'default'" in evenhand("users", "role", "ben", "--project", "default", "--role", "none")
    assert sqlite_service.accounts.members("default") == []


def test_the_last_admin_is_kept() -> None:
    add("ada", "--admin")
    for arguments in (["admin", "ada", "--no-admin"], ["disable", "ada"], ["delete", "ada", "--yes"]):
        with pytest.raises(EvenhandError, match="last admin"):
            evenhand("users", *arguments)
    add("ben")
    assert evenhand("users", "admin", "ben") == "'ben' is an admin now.\n"
    assert evenhand("users", "admin", "ada", "--no-admin") == "'ada' is no admin now.\n"


def token_of(service: Service, name: str) -> str:
    return service.accounts.add_token(person_of(service.accounts.user(name)), "default", "viewer", "a test", 1)[1]


def test_a_new_password_revokes_tokens_and_says_so(sqlite_service: Service) -> None:
    add("ada", "--admin")
    secret = token_of(sqlite_service, "ada")
    said = evenhand("users", "password", "ada", "--password-stdin", typed=OTHER)
    assert said == "'ada' has a new password and has to sign in again. Earlier tokens no longer work.\n"
    assert sqlite_service.accounts.by_token(secret) is None


def test_a_user_is_kept_out_let_in_and_deleted(sqlite_service: Service) -> None:
    add("ada", "--admin")
    add("ben")
    secret = sqlite_service.accounts.sign_in("ben", GOOD, HERE)
    evenhand("users", "role", "ben", "--project", "default", "--role", "viewer")
    secrets = {name: token_of(sqlite_service, name) for name in ("ada", "ben")}
    assert evenhand("users", "disable", "BEN") == "'ben' is disabled now, and their tokens are revoked.\n"
    assert sqlite_service.accounts.signed_in(secret) is None
    assert evenhand("users", "enable", "ben") == "'ben' may sign in now.\n"
    assert sqlite_service.accounts.by_token(secrets["ben"]) is None
    assert sqlite_service.accounts.by_token(secrets["ada"]) is not None
    evenhand("users", "delete", "ben", typed="n\n", code=1)
    assert sqlite_service.accounts.user("ben").name == "ben"
    assert "'ben' is deleted." in evenhand("users", "delete", "ben", typed="y\n")
    with pytest.raises(EvenhandError, match="There is no user 'ben'"):
        evenhand("users", "enable", "ben")


# Tokens.


def test_a_token_is_shown_once_and_works_until_it_is_revoked(sqlite_service: Service) -> None:
    add("ada", "--admin")
    evenhand("projects", "add", "loans")
    assert "There are no tokens" in evenhand("users", "tokens")
    made = ["users", "token", "ada", "--project", "loans", "--name", "nightly"]
    secret = evenhand(*made, "--role", "auditor", "--days", "9").rstrip("\n")
    other = printed_json(*made)
    found = sqlite_service.accounts.by_token(secret)
    assert found is not None
    assert (found[0].name, found[1].name, found[2]) == ("ada", "nightly", "auditor")
    assert sqlite_service.accounts.by_token(other["secret"]) is not None
    assert secret not in evenhand("users", "tokens") + json.dumps(printed_json("users", "tokens", "ada"))
    assert evenhand("users", "tokens", "ada").count("works") == 2
    with pytest.raises(EvenhandError, match="There is no token"):
        evenhand("users", "revoke", found[1].id[:3])
    assert "no longer works" in evenhand("users", "revoke", found[1].id[:8].upper())
    assert sqlite_service.accounts.by_token(secret) is None
    assert sqlite_service.accounts.by_token(other["secret"]) is not None
    assert "revoked" in evenhand("users", "tokens")
    assert other["id"] in [card["id"] for card in printed_json("users", "tokens") if card["revoked"] is None]


def test_a_token_is_never_for_more_than_its_user_may() -> None:
    add("ben", "--project", "default", "--role", "viewer")
    made = ["users", "token", "ben", "--project", "default", "--name", "ci"]
    for more, words in (
        (["--role", "auditor"], "'ben' is only viewer"),
        (["--role", "owner"], "There is no role 'owner'"),
        (["--days", "367"], "Choose 1 to 366"),
    ):
        with pytest.raises(EvenhandError, match=words):
            evenhand(*made, *more)
    assert printed_json("users", "tokens") == []


# The log.


def test_what_the_command_line_does_is_noted(sqlite_service: Service) -> None:
    add("ada", "--admin")
    add("ben")
    evenhand("projects", "add", "loans")
    evenhand("users", "role", "ben", "--project", "loans", "--role", "viewer")
    evenhand("users", "password", "ben", "--password-stdin", typed=OTHER)
    evenhand("users", "admin", "ben")
    evenhand("users", "disable", "ben")
    token = printed_json("users", "token", "ada", "--project", "loans", "--name", "ci")["id"]
    evenhand("users", "revoke", token)
    evenhand("users", "delete", "ben", "--yes")
    evenhand("projects", "rename", "loans", "credit")
    evenhand("projects", "delete", "credit", "--yes")
    entries = printed_json("users", "log")
    assert [(entry["action"], entry["subject"]) for entry in reversed(entries)] == [
        ("made a user", "ada"),
        ("made a user", "ben"),
        ("made a project", "loans"),
        ("changed a role", "ben"),
        ("set a password", "ben"),
        ("changed a user", "ben"),
        ("changed a user", "ben"),
        ("made a token", token),
        ("revoked a token", token),
        ("deleted a user", "ben"),
        ("renamed a project", "credit"),
        ("deleted a project", "credit"),
    ]
    assert {entry["user"] for entry in entries} == {"command line"}


def test_the_log_is_filtered_and_limited(sqlite_service: Service) -> None:
    add("ada", "--admin")
    for name in ("ada", "nobody"):
        with pytest.raises(EvenhandError):
            sqlite_service.accounts.sign_in(name, "wrong", HERE)
    assert [entry["user"] for entry in printed_json("users", "log", "--action", "sign-in refused")] == ["nobody", "ada"]
    assert [entry["address"] for entry in printed_json("users", "log", "--user", "ada")] == [HERE]
    assert len(printed_json("users", "log", "--limit", "2")) == 2
    shown = evenhand("users", "log")
    assert "sign-in refused" in shown
    assert HERE in shown
    assert "Nothing of that kind" in evenhand("users", "log", "--user", "carl")


# Projects.


def test_projects_are_made_listed_renamed_and_deleted(sqlite_service: Service) -> None:
    made = printed_json("projects", "add", "loans")
    run = small_run(sqlite_service, made["id"])
    sqlite_service.home.run(run.id).mkdir()
    kept = small_run(sqlite_service)
    add("ben", "--project", made["id"], "--role", "viewer")
    assert "1 runs, 0 data sets, 0 models" in evenhand("projects", "list")
    listed = {card["name"]: (card["runs"], card["members"]) for card in printed_json("projects", "list")}
    assert listed == {"default": (1, 0), "loans": (1, 1)}
    assert "is called 'credit' now" in evenhand("projects", "rename", "loans", "credit")
    evenhand("projects", "delete", "credit", typed="n\n", code=1)
    assert sqlite_service.home.run(run.id).exists()
    asked = evenhand("projects", "delete", "credit", typed="y\n")
    assert "Delete the project 'credit' with 1 runs, 0 data sets, 0 models and all their files?" in asked
    assert not sqlite_service.home.run(run.id).exists()
    assert [found.id for found in sqlite_service.runs.newest()] == [kept.id]
    with pytest.raises(EvenhandError, match="is always there"):
        evenhand("projects", "delete", "default", "--yes")


def test_accounts_are_kept_in_postgresql_too(postgres: Cluster, tmp_path: Path) -> None:
    place = ["--database", postgres.new_database(postgres.template)]
    add("ada", "--admin", *place)
    assert [card["name"] for card in printed_json("users", "list", *place)] == ["ada"]
    assert not (tmp_path / "home" / "evenhand.db").exists()
