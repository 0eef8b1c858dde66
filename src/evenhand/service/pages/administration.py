"""Pages for admins about projects, and the log of who did what."""

from typing import Any
from urllib.parse import quote

from fastapi import Request, Response

from evenhand.errors import EvenhandError
from evenhand.service.api.access import ACTIONS
from evenhand.service.api.context import tell
from evenhand.service.api.errors import otherwise
from evenhand.service.pages.account import person_here
from evenhand.service.pages.deleting import Deletion
from evenhand.service.pages.user_pages import given_role
from evenhand.service.pages.view import Asked, Form, View, link, router, see, text_of
from evenhand.service.settings import DEFAULT_PROJECT
from evenhand.service.storage.tables import Project

SECTION = "/admin/projects"
PER_PAGE = 50

pages = router()


@pages.get("/admin/projects")
def projects(view: Asked) -> Response:
    """All projects."""
    return _projects(view)


def _projects(view: View, errors: dict[str, str] | None = None, name: str = "") -> Response:
    person_here(view)
    return view.page(
        "admin_projects", section=SECTION, status=400 if errors else 200, projects=view.service.projects.all(),
        errors=errors or {}, name=name,
    )  # fmt: skip


@pages.post("/admin/projects")
def add_project(request: Request, view: Asked, form: Form) -> Response:
    """Make a project."""
    person_here(view)
    try:
        made = view.service.projects.add(text_of(form, "name"))
    except EvenhandError as error:
        return _projects(view, {"name": str(error)}, text_of(form, "name"))
    tell(request, subject=made.id, project=made.id, name=made.name)
    return see(f"{SECTION}/{made.id}")


@pages.get("/admin/projects/{project_id}")
def project(view: Asked, project_id: str) -> Response:
    """One project, and who may do what in it."""
    return _project(view, _found(view, project_id))


def _project(view: View, found: Project, errors: dict[str, str] | None = None, name: str | None = None) -> Response:
    members = view.service.accounts.members(found.id)
    there = {member.id for member, _ in members}
    others = [user for user in view.service.accounts.users() if user.id not in there and not user.admin]
    return view.page(
        "admin_project", section=SECTION, status=400 if errors else 200, project=found, members=members,
        others=others, errors=errors or {}, name=found.name if name is None else name,
        is_first=found.id == DEFAULT_PROJECT,
    )  # fmt: skip


def _found(view: View, project_id: str) -> Project:
    person_here(view)
    with otherwise("not-found"):
        return view.service.projects.get(project_id)


@pages.post("/admin/projects/{project_id}")
def rename_project(request: Request, view: Asked, form: Form, project_id: str) -> Response:
    """Give a project another name."""
    found, name = _found(view, project_id), text_of(form, "name")
    try:
        view.service.projects.rename(found.id, name)
    except EvenhandError as error:
        return _project(view, found, {"name": str(error)}, name)
    tell(request, subject=found.id, project=found.id, before=found.name, name=name)
    return see(f"{SECTION}/{quote(found.id)}")


@pages.post("/admin/projects/{project_id}/role")
def set_role(request: Request, view: Asked, form: Form, project_id: str) -> Response:
    """Say what a user may do in the project."""
    found, user, role = _found(view, project_id), text_of(form, "user"), given_role(form)
    try:
        view.service.accounts.set_role(user, found.id, role)
    except EvenhandError as error:
        return _project(view, found, {"user": str(error)})
    tell(request, subject=user, project=found.id, role=role or "none")
    return see(f"{SECTION}/{quote(found.id)}#members")


@pages.get("/admin/projects/{project_id}/delete")
def ask_to_delete(view: Asked, project_id: str) -> Response:
    """Whether to delete a project."""
    return _deletion(_found(view, project_id)).ask(view)


@pages.post("/admin/projects/{project_id}/delete")
def delete_project(request: Request, view: Asked, project_id: str) -> Response:
    """Delete a project and all that is in it."""
    found = _found(view, project_id)
    tell(request, subject=found.id, project=found.id, name=found.name)
    return _deletion(found).do(view, lambda: view.service.projects.delete(found.id))


def _deletion(found: Project) -> Deletion:
    words = "All tables, models, runs, findings and reports of the project are removed from this service."
    return Deletion(SECTION, f"{SECTION}/{quote(found.id)}", found.name, words)


@pages.get("/admin/log")
def show_log(view: Asked, user: str = "", action: str = "", project: str = "", after: str = "") -> Response:
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
