"""Routes for admins: users, projects with their members, and the log."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from evenhand.service.api.accounts import known_person
from evenhand.service.api.context import Asked, tell
from evenhand.service.api.errors import documented, otherwise
from evenhand.service.api.watching import LARGEST
from evenhand.service.storage.accounts import Role
from evenhand.service.storage.passwords import check_new_password

router = APIRouter(prefix="/api/v1", tags=["administration"], responses=documented("conflict"))

Name = Annotated[str, Path(max_length=100, description="A user's name.")]
ProjectId = Annotated[str, Path(pattern="^([0-9a-f]{32}|default)$", description="A project's id.")]
Password = Annotated[str, Field(min_length=12, max_length=200)]


class UserAnswer(BaseModel):
    """Somebody who may sign in."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    admin: bool
    disabled: bool
    created: datetime


class Users(BaseModel):
    """Users by name."""

    entries: list[UserAnswer]


class NewUser(BaseModel):
    """A user to be made."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=100)
    password: Password
    admin: bool = False


class UserChanges(BaseModel):
    """What is to be different; null: as it is."""

    model_config = ConfigDict(extra="forbid")

    password: Password | None = None
    admin: bool | None = None
    disabled: bool | None = None


class ProjectAnswer(BaseModel):
    """A project."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    created: datetime


class ProjectName(BaseModel):
    """A project's name."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=100)


class MemberAnswer(BaseModel):
    """What a user may do in a project."""

    name: str
    role: Role


class Members(BaseModel):
    """Members by name; admins need no role and are not among them."""

    entries: list[MemberAnswer]


class MemberRole(BaseModel):
    """A role in a project."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["viewer", "auditor"] | None = Field(description="Null: none any more.")


class LogEntryAnswer(BaseModel):
    """Something that somebody did."""

    model_config = ConfigDict(from_attributes=True)

    id: int
    at: datetime
    user: str | None
    address: str | None
    action: str
    project: str | None
    subject: str | None
    data: dict[str, Any]


class LogPage(BaseModel):
    """Entries, the newest first."""

    entries: list[LogEntryAnswer]
    next: int | None


@router.get("/users", summary="List users")
def list_users(asked: Asked) -> Users:
    """By name."""
    return Users(entries=[UserAnswer.model_validate(user) for user in asked.service.accounts.users()])


@router.post("/users", summary="Make a user", status_code=201)
def add_user(request: Request, asked: Asked, body: NewUser) -> UserAnswer:
    """They may do nothing yet, unless they are an admin."""
    known_person(asked)
    made = asked.service.accounts.add_user(body.name, body.password, admin=body.admin)
    tell(request, subject=made.name, admin=body.admin)
    return UserAnswer.model_validate(asked.service.accounts.user(made.name))


@router.patch("/users/{name}", summary="Change a user")
def change_user(request: Request, asked: Asked, name: Name, body: UserChanges) -> UserAnswer:
    """A new password ends all sign-ins and revokes all tokens; one kept out is signed out. The last admin stays one."""
    known_person(asked)
    accounts = asked.service.accounts
    with otherwise("not-found"):
        user = accounts.user(name)
    if body.password is not None:
        check_new_password(user.name, body.password)  # first: all of it is done, or nothing
    with otherwise("conflict"):
        if body.admin is not None:
            accounts.set_admin(user.name, body.admin)
        if body.disabled is not None:
            accounts.set_disabled(user.name, body.disabled)
    if body.password is not None:
        accounts.set_password(user.name, body.password)
    changed: dict[str, Any] = body.model_dump(exclude_none=True, exclude={"password"})
    tell(request, subject=user.name, **changed, **({} if body.password is None else {"password": "set"}))
    return UserAnswer.model_validate(accounts.user(user.name))


@router.delete("/users/{name}", summary="Delete a user", status_code=204)
def delete_user(asked: Asked, name: Name) -> Response:
    """Their tokens stop working; what they made stays. The last admin stays too."""
    known_person(asked)
    with otherwise("not-found"):
        user = asked.service.accounts.user(name)
    with otherwise("conflict"):
        asked.service.accounts.delete_user(user.name)
    return Response(status_code=204)


@router.post("/projects", summary="Make a project", status_code=201)
def add_project(request: Request, asked: Asked, body: ProjectName) -> ProjectAnswer:
    """Only admins see it until others are given a role in it."""
    known_person(asked)
    made = asked.service.projects.add(body.name)
    tell(request, subject=made.id, project=made.id, name=made.name)
    return ProjectAnswer.model_validate(made)


@router.patch("/projects/{project_id}", summary="Rename a project")
def rename_project(request: Request, asked: Asked, project_id: ProjectId, body: ProjectName) -> ProjectAnswer:
    """Its id stays."""
    known_person(asked)
    with otherwise("not-found"):
        found = asked.service.projects.get(project_id)
    renamed = asked.service.projects.rename(found.id, body.name)
    tell(request, subject=found.id, project=found.id, before=found.name, name=renamed.name)
    return ProjectAnswer.model_validate(renamed)


@router.delete("/projects/{project_id}", summary="Delete a project", status_code=204)
def delete_project(request: Request, asked: Asked, project_id: ProjectId) -> Response:
    """With all its files. Refused while a run of it goes on."""
    known_person(asked)
    with otherwise("not-found"):
        found = asked.service.projects.get(project_id)
    with otherwise("conflict"):
        asked.service.projects.delete(found.id)
    tell(request, subject=found.id, project=found.id, name=found.name)
    return Response(status_code=204)


@router.get("/projects/{project_id}/members", summary="List the members of a project")
def list_members(asked: Asked, project_id: ProjectId) -> Members:
    """By name."""
    with otherwise("not-found"):
        found = asked.service.projects.get(project_id)
    members = asked.service.accounts.members(found.id)
    return Members(entries=[MemberAnswer(name=user.name, role=role) for user, role in members])


@router.put("/projects/{project_id}/members/{name}", summary="Give a user a role in a project")
def set_role(request: Request, asked: Asked, project_id: ProjectId, name: Name, body: MemberRole) -> Members:
    """Or take it away."""
    known_person(asked)
    with otherwise("not-found"):
        asked.service.accounts.set_role(name, project_id, body.role)
    tell(request, subject=name, project=project_id, role=body.role or "none")
    return list_members(asked, project_id)


@router.get("/log", summary="Show who did what")
def show_log(
    asked: Asked,
    user: Annotated[str | None, Query(max_length=100, description="A name.")] = None,
    action: Annotated[str | None, Query(max_length=50)] = None,
    project: Annotated[str | None, Query(max_length=32, description="An id.")] = None,
    after: Annotated[int | None, Query(ge=0, le=LARGEST, description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> LogPage:
    """Newest first."""
    found = asked.service.log.entries(user=user, action=action, project=project, after=after, limit=limit + 1)
    shown = found[:limit]
    return LogPage(
        entries=[LogEntryAnswer.model_validate(entry) for entry in shown],
        next=shown[-1].id if len(found) > limit else None,
    )
