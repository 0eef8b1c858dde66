"""Routes about accounts: one's own roles and tokens; for admins users, projects with their members, and the log."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from evenhand.service.api.answers import FromEntry, JsonBody, Listed
from evenhand.service.api.caller import Caller, CurrentCaller, Id, log_details
from evenhand.service.api.errors import ApiError, documented, errors_as
from evenhand.service.api.identity import address_of
from evenhand.service.api.watching import LARGEST
from evenhand.service.storage.accounts import MOST_DAYS
from evenhand.service.storage.passwords import check_new_password
from evenhand.service.storage.projects import Person, Role
from evenhand.service.storage.tables import Token

router = APIRouter(prefix="/api/v1", tags=["account"], responses=documented("conflict"))


class Me(BaseModel):
    """The caller."""

    name: str | None = Field(description="Null where the service has no accounts.")
    admin: bool
    project: str | None = Field(description="The id of the project that requests are about; null: a member of none.")
    role: Role | None = Field(description="In this project.")
    by_token: bool


class ProjectRole(BaseModel):
    """A project, and what the caller may do in it."""

    id: str
    name: str
    role: Role


class TokenAnswer(FromEntry):
    """A token, without its secret."""

    id: str
    name: str
    project: str
    role: Role
    created: datetime
    expires: datetime
    used: datetime | None = Field(description="The last time, to the minute.")
    revoked: datetime | None


class NewTokenAnswer(TokenAnswer):
    """A token that was just made."""

    secret: str = Field(description="Shown this one time.")


class NewToken(JsonBody):
    """What a new token may do, and for how long."""

    password: str = Field(max_length=200, description="The caller's.")
    name: str = Field(min_length=1, max_length=100)
    role: Role = "viewer"
    days: int = Field(default=90, ge=1, le=MOST_DAYS)
    project: Annotated[str, Field(max_length=32)] | None = Field(default=None, description="Null: that of the request.")


def known_person(caller: Caller) -> Person:
    """The caller; a service without accounts knows nobody, and nobody may plant an account for later."""
    if caller.person is None:
        raise ApiError("conflict", "This service has no accounts. An admin makes them: evenhand users add NAME --admin")
    return caller.person


@router.get("/me", summary="Show the caller")
def show_me(caller: CurrentCaller) -> Me:
    """The name, the project that requests are about, and the role in it."""
    person = caller.person
    return Me(
        name=person.name if person else None, admin=person.admin if person else True, project=caller.project or None,
        role=caller.role, by_token=caller.token is not None,
    )  # fmt: skip


@router.get("/projects", summary="List the caller's projects")
def list_projects(caller: CurrentCaller) -> Listed[ProjectRole]:
    """By name. A token knows its own project only."""
    if caller.person is None:
        found = [(project, "admin") for project in caller.service.projects.all() if project.id == caller.project]
    else:
        found = [(project, str(role)) for project, role in caller.service.accounts.projects_of(caller.person)]
    if caller.token is not None:
        found = [(project, str(caller.role)) for project, _ in found if project.id == caller.project]
    return Listed(entries=[ProjectRole(id=one.id, name=one.name, role=role) for one, role in found])


@router.get("/me/tokens", summary="List the caller's tokens")
def list_tokens(caller: CurrentCaller) -> Listed[TokenAnswer]:
    """Also those that work no more. A token sees those of its own project only."""
    found = caller.service.accounts.tokens(known_person(caller))
    return Listed(entries=[TokenAnswer.model_validate(token) for token in found if _within(caller, token)])


@router.post("/me/tokens", summary="Make a token", status_code=201, responses=documented("conflict", "too-many"))
def add_token(request: Request, caller: CurrentCaller, body: NewToken) -> NewTokenAnswer:
    """Never more than the caller may do. A token makes no others: one that was stolen would live on in them."""
    person, project, accounts = known_person(caller), body.project or caller.project, caller.service.accounts
    accounts.check_password(person.name, body.password, address_of(request))
    made, secret = accounts.add_token(person, project, body.role, body.name, body.days)
    log_details(request, subject=made.id, project=project, role=made.role, days=body.days, name=made.name)
    return NewTokenAnswer(**TokenAnswer.model_validate(made).model_dump(), secret=secret)


@router.delete("/me/tokens/{token_id}", summary="Revoke a token", status_code=204)
def revoke_token(request: Request, caller: CurrentCaller, token_id: Id) -> Response:
    """It works no more from now on. A token can revoke itself alone."""
    person = known_person(caller)
    found = next((token for token in caller.service.accounts.tokens(person) if token.id == token_id), None)
    if found is None or not _within(caller, found):
        raise ApiError("not-found", f"You have no token {token_id}.")
    if caller.token is not None and caller.token.id != token_id:
        raise ApiError("forbidden", "A token revokes itself alone. Sign in with a browser to revoke others.")
    log_details(request, subject=token_id, project=found.project, name=found.name)
    with errors_as("not-found"):
        caller.service.accounts.revoke_token(token_id, person)
    return Response(status_code=204)


def _within(caller: Caller, token: Token) -> bool:
    return caller.token is None or token.project == caller.project


admin_router = APIRouter(prefix="/api/v1", tags=["administration"], responses=documented("conflict"))

Name = Annotated[str, Path(max_length=100, description="A user's name.")]
ProjectId = Annotated[str, Path(pattern="^([0-9a-f]{32}|default)$", description="A project's id.")]
Password = Annotated[str, Field(min_length=12, max_length=200)]


class UserAnswer(FromEntry):
    """Somebody who may sign in."""

    name: str
    admin: bool
    disabled: bool
    created: datetime


class NewUser(JsonBody):
    """A user to be made."""

    name: str = Field(min_length=1, max_length=100)
    password: Password
    admin: bool = False


class UserChanges(JsonBody):
    """What is to be different; null: as it is."""

    password: Password | None = None
    admin: bool | None = None
    disabled: bool | None = None


class ProjectAnswer(FromEntry):
    """A project."""

    id: str
    name: str
    created: datetime


class ProjectName(JsonBody):
    """A project's name."""

    name: str = Field(min_length=1, max_length=100)


class MemberAnswer(BaseModel):
    """What a user may do in a project."""

    name: str
    role: Role


class MemberRole(JsonBody):
    """A role in a project."""

    role: Literal["viewer", "auditor"] | None = Field(description="Null: none any more.")


class LogEntryAnswer(FromEntry):
    """Something that somebody did."""

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


@admin_router.get("/users", summary="List users")
def list_users(caller: CurrentCaller) -> Listed[UserAnswer]:
    """By name."""
    return Listed(entries=[UserAnswer.model_validate(user) for user in caller.service.accounts.users()])


@admin_router.post("/users", summary="Make a user", status_code=201)
def add_user(request: Request, caller: CurrentCaller, body: NewUser) -> UserAnswer:
    """They may do nothing yet, unless they are an admin."""
    known_person(caller)
    made = caller.service.accounts.add_user(body.name, body.password, admin=body.admin)
    log_details(request, subject=made.name, admin=body.admin)
    return UserAnswer.model_validate(caller.service.accounts.user(made.name))


@admin_router.patch("/users/{name}", summary="Change a user")
def change_user(request: Request, caller: CurrentCaller, name: Name, body: UserChanges) -> UserAnswer:
    """A new password, or being disabled, ends all sign-ins and revokes all tokens. The last admin stays one."""
    known_person(caller)
    accounts = caller.service.accounts
    with errors_as("not-found"):
        user = accounts.user(name)
    if body.password is not None:
        check_new_password(user.name, body.password)  # first: all of it is done, or nothing
    with errors_as("conflict"):
        if body.admin is not None:
            accounts.set_admin(user.name, body.admin)
        if body.disabled is not None:
            accounts.set_disabled(user.name, body.disabled)
    if body.password is not None:
        accounts.set_password(user.name, body.password)
    changed: dict[str, Any] = body.model_dump(exclude_none=True, exclude={"password"})
    log_details(request, subject=user.name, **changed, **({} if body.password is None else {"password": "set"}))
    return UserAnswer.model_validate(accounts.user(user.name))


@admin_router.delete("/users/{name}", summary="Delete a user", status_code=204)
def delete_user(caller: CurrentCaller, name: Name) -> Response:
    """Their tokens stop working; what they made stays. The last admin stays too."""
    known_person(caller)
    with errors_as("not-found"):
        user = caller.service.accounts.user(name)
    with errors_as("conflict"):
        caller.service.accounts.delete_user(user.name)
    return Response(status_code=204)


@admin_router.post("/projects", summary="Make a project", status_code=201)
def add_project(request: Request, caller: CurrentCaller, body: ProjectName) -> ProjectAnswer:
    """Only admins see it until others are given a role in it."""
    known_person(caller)
    made = caller.service.projects.add(body.name)
    log_details(request, subject=made.id, project=made.id, name=made.name)
    return ProjectAnswer.model_validate(made)


@admin_router.patch("/projects/{project_id}", summary="Rename a project")
def rename_project(request: Request, caller: CurrentCaller, project_id: ProjectId, body: ProjectName) -> ProjectAnswer:
    """Its id stays."""
    known_person(caller)
    with errors_as("not-found"):
        found = caller.service.projects.get(project_id)
    renamed = caller.service.projects.rename(found.id, body.name)
    log_details(request, subject=found.id, project=found.id, before=found.name, name=renamed.name)
    return ProjectAnswer.model_validate(renamed)


@admin_router.delete("/projects/{project_id}", summary="Delete a project", status_code=204)
def delete_project(request: Request, caller: CurrentCaller, project_id: ProjectId) -> Response:
    """With all its files. Refused while a run of it goes on."""
    known_person(caller)
    with errors_as("not-found"):
        found = caller.service.projects.get(project_id)
    with errors_as("conflict"):
        caller.service.projects.delete(found.id)
    log_details(request, subject=found.id, project=found.id, name=found.name)
    return Response(status_code=204)


@admin_router.get("/projects/{project_id}/members", summary="List the members of a project")
def list_members(caller: CurrentCaller, project_id: ProjectId) -> Listed[MemberAnswer]:
    """By name."""
    with errors_as("not-found"):
        found = caller.service.projects.get(project_id)
    members = caller.service.accounts.members(found.id)
    return Listed(entries=[MemberAnswer(name=user.name, role=role) for user, role in members])


@admin_router.put("/projects/{project_id}/members/{name}", summary="Give a user a role in a project")
def set_role(
    request: Request, caller: CurrentCaller, project_id: ProjectId, name: Name, body: MemberRole
) -> Listed[MemberAnswer]:
    """Or take it away."""
    known_person(caller)
    with errors_as("not-found"):
        caller.service.accounts.set_role(name, project_id, body.role)
    log_details(request, subject=name, project=project_id, role=body.role or "none")
    return list_members(caller, project_id)


@admin_router.get("/log", summary="Show who did what")
def show_log(
    caller: CurrentCaller,
    user: Annotated[str | None, Query(max_length=100, description="A name.")] = None,
    action: Annotated[str | None, Query(max_length=50)] = None,
    project: Annotated[str | None, Query(max_length=32, description="An id.")] = None,
    after: Annotated[int | None, Query(ge=0, le=LARGEST, description="`next` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> LogPage:
    """Newest first."""
    found = caller.service.log.entries(user=user, action=action, project=project, after=after, limit=limit + 1)
    shown = found[:limit]
    return LogPage(
        entries=[LogEntryAnswer.model_validate(entry) for entry in shown],
        next=shown[-1].id if len(found) > limit else None,
    )
