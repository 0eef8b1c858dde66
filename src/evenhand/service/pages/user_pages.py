"""Pages for admins about users: made, given roles and passwords, kept out, deleted."""

from collections.abc import Callable
from typing import Any, Literal, cast
from urllib.parse import quote

from fastapi import Request, Response

from evenhand.errors import EvenhandError
from evenhand.service.api.context import tell
from evenhand.service.api.errors import otherwise
from evenhand.service.pages.account import about_token, person_here, token_rows
from evenhand.service.pages.deleting import Deletion
from evenhand.service.pages.view import Asked, Form, View, router, see, text_of
from evenhand.service.settings import DEFAULT_PROJECT
from evenhand.service.storage.accounts import person_of
from evenhand.service.storage.tables import User

SECTION = "/admin/users"
Given = Literal["viewer", "auditor"]

pages = router()


def given_role(form: Any) -> Given | None:
    """The role that a form chose; empty: none. What is no role is refused by the storage."""
    return cast("Given", text_of(form, "role")) or None


@pages.get("/admin/users")
def users(view: Asked) -> Response:
    """All users."""
    return _users(view)


def _users(view: View, **values: Any) -> Response:
    person_here(view)
    values = {"errors": {}, "form": {"name": "", "project": DEFAULT_PROJECT, "role": ""}} | values
    return view.page(
        "admin_users", section=SECTION, status=400 if values["errors"] else 200, users=view.service.accounts.users(),
        projects=view.service.projects.all(), **values,
    )  # fmt: skip


@pages.post("/admin/users")
def add_user(request: Request, view: Asked, form: Form) -> Response:
    """Make a user, with a role in a project if one is chosen."""
    person_here(view)
    name, project, role = text_of(form, "name"), text_of(form, "project"), given_role(form)
    kept = {"name": name, "project": project, "role": role or ""}
    try:
        if role is not None:
            view.service.projects.get(project)  # before anything is made
        made = view.service.accounts.add_user(name, str(form.get("password") or ""), admin=form.get("admin") == "yes")
    except EvenhandError as error:
        at = "password" if "password" in str(error) else "name"
        return _users(view, errors={at: str(error)}, form=kept)
    if role is not None:
        view.service.accounts.set_role(made.name, project, role)
    given = {} if role is None else {"role": role}
    tell(request, subject=made.name, project=None if role is None else project, admin=made.admin, **given)
    return see(f"{SECTION}/{quote(made.name)}")


@pages.get("/admin/users/{name}")
def user(view: Asked, name: str) -> Response:
    """One user."""
    return _user(view, name)


def _user(view: View, name: str, errors: dict[str, str] | None = None) -> Response:
    found, accounts = _found(view, name), view.service.accounts
    person = person_of(found)
    roles = {project.id: role for project, role in accounts.projects_of(person)}
    projects = view.service.projects.all()
    return view.page(
        "admin_user", section=SECTION, status=400 if errors else 200, user=found, roles=roles, projects=projects,
        tokens=token_rows(accounts, person, {project.id: project.name for project in projects}), errors=errors or {},
    )  # fmt: skip


def _found(view: View, name: str) -> User:
    person_here(view)
    with otherwise("not-found"):
        return view.service.accounts.user(name)


@pages.post("/admin/users/{name}")
def change_user(request: Request, view: Asked, form: Form, name: str) -> Response:
    """Make a user an admin or not, or keep them out or not: what the button says."""
    found, accounts = _found(view, name), view.service.accounts
    changes: dict[str, tuple[str, bool, Callable[[str, bool], Any]]] = {
        "admin": ("admin", True, accounts.set_admin),
        "no-admin": ("admin", False, accounts.set_admin),
        "disable": ("disabled", True, accounts.set_disabled),
        "enable": ("disabled", False, accounts.set_disabled),
    }
    chosen = changes.get(text_of(form, "do"))
    if chosen is None:
        return _user(view, name, {"": "Choose what to change."})
    what, value, change = chosen
    try:
        change(found.name, value)
    except EvenhandError as error:
        return _user(view, name, {"": str(error)})
    changed: dict[str, Any] = {what: value}
    tell(request, subject=found.name, **changed)
    return see(f"{SECTION}/{quote(found.name)}")


@pages.post("/admin/users/{name}/password")
def set_password(request: Request, view: Asked, form: Form, name: str) -> Response:
    """Give a user a new password; they are signed out everywhere, and their tokens are revoked."""
    found = _found(view, name)
    try:
        view.service.accounts.set_password(found.name, str(form.get("password") or ""))
    except EvenhandError as error:
        return _user(view, name, {"password": str(error)})
    tell(request, subject=found.name, password="set")
    return see(f"{SECTION}/{quote(found.name)}")


@pages.post("/admin/users/{name}/role")
def set_role(request: Request, view: Asked, form: Form, name: str) -> Response:
    """Say what a user may do in a project."""
    found, project, role = _found(view, name), text_of(form, "project"), given_role(form)
    try:
        view.service.accounts.set_role(found.name, project, role)
    except EvenhandError as error:
        return _user(view, name, {"project": str(error)})
    tell(request, subject=found.name, project=project, role=role or "none")
    return see(f"{SECTION}/{quote(found.name)}#roles")


@pages.post("/admin/users/{name}/tokens/{token_id}/revoke")
def revoke_token(request: Request, view: Asked, name: str, token_id: str) -> Response:
    """Let a user's token work no more."""
    accounts, person = view.service.accounts, person_of(_found(view, name))
    tell(request, **about_token(accounts, person, token_id) | {"of": person.name})
    with otherwise("not-found"):
        accounts.revoke_token(token_id, person)
    return see(f"{SECTION}/{quote(name)}#tokens")


@pages.get("/admin/users/{name}/delete")
def ask_to_delete(view: Asked, name: str) -> Response:
    """Whether to delete a user."""
    return _deletion(_found(view, name)).ask(view)


@pages.post("/admin/users/{name}/delete")
def delete_user(view: Asked, name: str) -> Response:
    """Delete a user."""
    found = _found(view, name)
    return _deletion(found).do(view, lambda: view.service.accounts.delete_user(found.name))


def _deletion(found: User) -> Deletion:
    words = "The user is signed out, and their tokens stop working. Runs and files that they made stay."
    return Deletion(SECTION, f"{SECTION}/{quote(found.name)}", found.name, words)
