"""Pages for admins: users, projects, and the log of who did what."""

from collections.abc import Callable
from typing import Any, Literal, cast
from urllib.parse import quote

from fastapi import Request, Response

from evenhand.errors import EvenhandError
from evenhand.service.api.access import ACTIONS
from evenhand.service.api.caller import log_details
from evenhand.service.api.errors import errors_as
from evenhand.service.pages.account import signed_in_person, token_details, token_rows
from evenhand.service.pages.forms import Form, field_of
from evenhand.service.pages.view import CurrentView, Deletion, View, link, redirect, router
from evenhand.service.storage.projects import DEFAULT_PROJECT, person_of
from evenhand.service.storage.tables import Project, User

USERS = "/admin/users"
Given = Literal["viewer", "auditor"]

pages = router()
PROJECTS = "/admin/projects"
PER_PAGE = 50


def chosen_role(form: Any) -> Given | None:
    """The role that a form chose; empty: none. What is no role is refused by the storage."""
    return cast("Given", field_of(form, "role")) or None


@pages.get("/admin/users")
def users(view: CurrentView) -> Response:
    """All users."""
    return _users(view)


def _users(view: View, **values: Any) -> Response:
    signed_in_person(view)
    values = {"errors": {}, "form": {"name": "", "project": DEFAULT_PROJECT, "role": ""}} | values
    return view.page(
        "admin_users", section=USERS, status=400 if values["errors"] else 200, users=view.service.accounts.users(),
        projects=view.service.projects.all(), **values,
    )  # fmt: skip


@pages.post("/admin/users")
def add_user(request: Request, view: CurrentView, form: Form) -> Response:
    """Make a user, with a role in a project if one is chosen."""
    signed_in_person(view)
    name, project, role = field_of(form, "name"), field_of(form, "project"), chosen_role(form)
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
    log_details(request, subject=made.name, project=None if role is None else project, admin=made.admin, **given)
    return redirect(f"{USERS}/{quote(made.name)}")


@pages.get("/admin/users/{name}")
def user(view: CurrentView, name: str) -> Response:
    """One user."""
    return _user(view, name)


def _user(view: View, name: str, errors: dict[str, str] | None = None) -> Response:
    found, accounts = _found_user(view, name), view.service.accounts
    person = person_of(found)
    roles = {project.id: role for project, role in accounts.projects_of(person)}
    projects = view.service.projects.all()
    return view.page(
        "admin_user", section=USERS, status=400 if errors else 200, user=found, roles=roles, projects=projects,
        tokens=token_rows(accounts, person, {project.id: project.name for project in projects}), errors=errors or {},
    )  # fmt: skip


def _found_user(view: View, name: str) -> User:
    signed_in_person(view)
    with errors_as("not-found"):
        return view.service.accounts.user(name)


@pages.post("/admin/users/{name}")
def change_user(request: Request, view: CurrentView, form: Form, name: str) -> Response:
    """Make a user an admin or not, or keep them out or not: what the button says."""
    found, accounts = _found_user(view, name), view.service.accounts
    changes: dict[str, tuple[str, bool, Callable[[str, bool], Any]]] = {
        "admin": ("admin", True, accounts.set_admin),
        "no-admin": ("admin", False, accounts.set_admin),
        "disable": ("disabled", True, accounts.set_disabled),
        "enable": ("disabled", False, accounts.set_disabled),
    }
    chosen = changes.get(field_of(form, "do"))
    if chosen is None:
        return _user(view, name, {"": "Choose what to change."})
    what, value, change = chosen
    try:
        change(found.name, value)
    except EvenhandError as error:
        return _user(view, name, {"": str(error)})
    changed: dict[str, Any] = {what: value}
    log_details(request, subject=found.name, **changed)
    return redirect(f"{USERS}/{quote(found.name)}")


@pages.post("/admin/users/{name}/password")
def set_password(request: Request, view: CurrentView, form: Form, name: str) -> Response:
    """Give a user a new password; they are signed out everywhere, and their tokens are revoked."""
    found = _found_user(view, name)
    try:
        view.service.accounts.set_password(found.name, str(form.get("password") or ""))
    except EvenhandError as error:
        return _user(view, name, {"password": str(error)})
    log_details(request, subject=found.name, password="set")
    return redirect(f"{USERS}/{quote(found.name)}")


@pages.post("/admin/users/{name}/role")
def set_role_of_user(request: Request, view: CurrentView, form: Form, name: str) -> Response:
    """Say what a user may do in a project."""
    found, project, role = _found_user(view, name), field_of(form, "project"), chosen_role(form)
    try:
        view.service.accounts.set_role(found.name, project, role)
    except EvenhandError as error:
        return _user(view, name, {"project": str(error)})
    log_details(request, subject=found.name, project=project, role=role or "none")
    return redirect(f"{USERS}/{quote(found.name)}#roles")


@pages.post("/admin/users/{name}/tokens/{token_id}/revoke")
def revoke_token(request: Request, view: CurrentView, name: str, token_id: str) -> Response:
    """Revoke a user's token."""
    accounts, person = view.service.accounts, person_of(_found_user(view, name))
    log_details(request, **token_details(accounts, person, token_id) | {"of": person.name})
    with errors_as("not-found"):
        accounts.revoke_token(token_id, person)
    return redirect(f"{USERS}/{quote(name)}#tokens")


@pages.get("/admin/users/{name}/delete")
def ask_to_delete_user(view: CurrentView, name: str) -> Response:
    """Whether to delete a user."""
    return _user_deletion(_found_user(view, name)).ask(view)


@pages.post("/admin/users/{name}/delete")
def delete_user(view: CurrentView, name: str) -> Response:
    """Delete a user."""
    found = _found_user(view, name)
    return _user_deletion(found).do(view, lambda: view.service.accounts.delete_user(found.name))


def _user_deletion(found: User) -> Deletion:
    words = "The user is signed out, and their tokens stop working. Runs and files that they made stay."
    return Deletion(USERS, f"{USERS}/{quote(found.name)}", found.name, words)


@pages.get("/admin/projects")
def projects(view: CurrentView) -> Response:
    """All projects."""
    return _projects(view)


def _projects(view: View, errors: dict[str, str] | None = None, name: str = "") -> Response:
    signed_in_person(view)
    return view.page(
        "admin_projects", section=PROJECTS, status=400 if errors else 200, projects=view.service.projects.all(),
        errors=errors or {}, name=name,
    )  # fmt: skip


@pages.post("/admin/projects")
def add_project(request: Request, view: CurrentView, form: Form) -> Response:
    """Make a project."""
    signed_in_person(view)
    try:
        made = view.service.projects.add(field_of(form, "name"))
    except EvenhandError as error:
        return _projects(view, {"name": str(error)}, field_of(form, "name"))
    log_details(request, subject=made.id, project=made.id, name=made.name)
    return redirect(f"{PROJECTS}/{made.id}")


@pages.get("/admin/projects/{project_id}")
def project(view: CurrentView, project_id: str) -> Response:
    """One project, and who may do what in it."""
    return _project(view, _found_project(view, project_id))


def _project(view: View, found: Project, errors: dict[str, str] | None = None, name: str | None = None) -> Response:
    members = view.service.accounts.members(found.id)
    there = {member.id for member, _ in members}
    others = [user for user in view.service.accounts.users() if user.id not in there and not user.admin]
    return view.page(
        "admin_project", section=PROJECTS, status=400 if errors else 200, project=found, members=members,
        others=others, errors=errors or {}, name=found.name if name is None else name,
        is_first=found.id == DEFAULT_PROJECT,
    )  # fmt: skip


def _found_project(view: View, project_id: str) -> Project:
    signed_in_person(view)
    with errors_as("not-found"):
        return view.service.projects.get(project_id)


@pages.post("/admin/projects/{project_id}")
def rename_project(request: Request, view: CurrentView, form: Form, project_id: str) -> Response:
    """Give a project another name."""
    found, name = _found_project(view, project_id), field_of(form, "name")
    try:
        view.service.projects.rename(found.id, name)
    except EvenhandError as error:
        return _project(view, found, {"name": str(error)}, name)
    log_details(request, subject=found.id, project=found.id, before=found.name, name=name)
    return redirect(f"{PROJECTS}/{quote(found.id)}")


@pages.post("/admin/projects/{project_id}/role")
def set_role_in_project(request: Request, view: CurrentView, form: Form, project_id: str) -> Response:
    """Say what a user may do in the project."""
    found, user, role = _found_project(view, project_id), field_of(form, "user"), chosen_role(form)
    try:
        view.service.accounts.set_role(user, found.id, role)
    except EvenhandError as error:
        return _project(view, found, {"user": str(error)})
    log_details(request, subject=user, project=found.id, role=role or "none")
    return redirect(f"{PROJECTS}/{quote(found.id)}#members")


@pages.get("/admin/projects/{project_id}/delete")
def ask_to_delete_project(view: CurrentView, project_id: str) -> Response:
    """Whether to delete a project."""
    return _project_deletion(_found_project(view, project_id)).ask(view)


@pages.post("/admin/projects/{project_id}/delete")
def delete_project(request: Request, view: CurrentView, project_id: str) -> Response:
    """Delete a project and all that is in it."""
    found = _found_project(view, project_id)
    log_details(request, subject=found.id, project=found.id, name=found.name)
    return _project_deletion(found).do(view, lambda: view.service.projects.delete(found.id))


def _project_deletion(found: Project) -> Deletion:
    words = "All tables, models, runs, findings and reports of the project are removed from this service."
    return Deletion(PROJECTS, f"{PROJECTS}/{quote(found.id)}", found.name, words)


@pages.get("/admin/log")
def show_log(view: CurrentView, user: str = "", action: str = "", project: str = "", after: str = "") -> Response:
    """Who did what, a page at a time."""
    begin = int(after) if after.isascii() and after.isdecimal() and len(after) < 19 else None
    wanted: dict[str, Any] = {"user": user or None, "action": action or None, "project": project or None}
    found = view.service.log.entries(**wanted, after=begin, limit=PER_PAGE + 1)
    shown = found[:PER_PAGE]
    older = link("/admin/log", **wanted, after=shown[-1].id) if len(found) > PER_PAGE else None
    projects = view.service.projects.all()
    return view.page(
        "admin_log", section="/admin/log", entries=shown, older=older, actions=ACTIONS, projects=projects,
        names={one.id: one.name for one in projects}, chosen=wanted,
    )  # fmt: skip
