"""Routes about the one who asks: what they may do, and their tokens."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from evenhand.service.api.context import Asked, Context, Id, tell
from evenhand.service.api.errors import ApiError, documented, otherwise
from evenhand.service.api.identity import address_of
from evenhand.service.storage.accounts import Person, Role
from evenhand.service.storage.tables import Token
from evenhand.service.storage.tokens import MOST_DAYS

router = APIRouter(prefix="/api/v1", tags=["account"], responses=documented("conflict"))


class Me(BaseModel):
    """The one who asks."""

    name: str | None = Field(description="Null where the service has no accounts.")
    admin: bool
    project: str | None = Field(description="The id of the project that requests are about; null: a member of none.")
    role: Role | None = Field(description="In this project.")
    by_token: bool


class ProjectRole(BaseModel):
    """A project, and what the one who asks may do in it."""

    id: str
    name: str
    role: Role


class ProjectRoles(BaseModel):
    """Projects by name."""

    entries: list[ProjectRole]


class TokenAnswer(BaseModel):
    """A token, without its secret."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    name: str
    project: str
    role: Role
    created: datetime
    expires: datetime
    used: datetime | None = Field(description="The last time, to the minute.")
    revoked: datetime | None


class Tokens(BaseModel):
    """Tokens, the newest first."""

    entries: list[TokenAnswer]


class NewTokenAnswer(TokenAnswer):
    """A token that was just made."""

    secret: str = Field(description="Shown this one time.")


class NewToken(BaseModel):
    """What a new token may do, and for how long."""

    model_config = ConfigDict(extra="forbid")

    password: str = Field(max_length=200, description="That of the one who asks.")
    name: str = Field(min_length=1, max_length=100)
    role: Role = "viewer"
    days: int = Field(default=90, ge=1, le=MOST_DAYS)
    project: Annotated[str, Field(max_length=32)] | None = Field(default=None, description="Null: that of the request.")


def known_person(asked: Context) -> Person:
    """The one who asks; a service without accounts knows nobody, and nobody may plant an account for later."""
    if asked.person is None:
        raise ApiError("conflict", "This service has no accounts. An admin makes them: evenhand users add NAME --admin")
    return asked.person


@router.get("/me", summary="Show who asks")
def show_me(asked: Asked) -> Me:
    """The name, the project that requests are about, and the role in it."""
    person = asked.person
    return Me(
        name=person.name if person else None, admin=person.admin if person else True, project=asked.project or None,
        role=asked.role, by_token=asked.token is not None,
    )  # fmt: skip


@router.get("/projects", summary="List the projects of the one who asks")
def list_projects(asked: Asked) -> ProjectRoles:
    """By name. A token knows its own project only."""
    if asked.person is None:
        found = [(project, "admin") for project in asked.service.projects.all() if project.id == asked.project]
    else:
        found = [(project, str(role)) for project, role in asked.service.accounts.projects_of(asked.person)]
    if asked.token is not None:
        found = [(project, str(asked.role)) for project, _ in found if project.id == asked.project]
    return ProjectRoles(entries=[ProjectRole(id=one.id, name=one.name, role=role) for one, role in found])


@router.get("/me/tokens", summary="List tokens of the one who asks")
def list_tokens(asked: Asked) -> Tokens:
    """Also those that work no more. A token sees those of its own project only."""
    found = asked.service.accounts.tokens(known_person(asked))
    return Tokens(entries=[TokenAnswer.model_validate(token) for token in found if _within(asked, token)])


@router.post("/me/tokens", summary="Make a token", status_code=201, responses=documented("conflict", "too-many"))
def add_token(request: Request, asked: Asked, body: NewToken) -> NewTokenAnswer:
    """Never more than the one who asks may do. A token makes no others: one that was stolen would live on in them."""
    person, project, accounts = known_person(asked), body.project or asked.project, asked.service.accounts
    accounts.check_password(person.name, body.password, address_of(request))
    made, secret = accounts.add_token(person, project, body.role, body.name, body.days)
    tell(request, subject=made.id, project=project, role=made.role, days=body.days, name=made.name)
    return NewTokenAnswer(**TokenAnswer.model_validate(made).model_dump(), secret=secret)


@router.delete("/me/tokens/{token_id}", summary="Revoke a token", status_code=204)
def revoke_token(request: Request, asked: Asked, token_id: Id) -> Response:
    """It works no more from now on. A token can revoke itself alone."""
    person = known_person(asked)
    found = next((token for token in asked.service.accounts.tokens(person) if token.id == token_id), None)
    if found is None or not _within(asked, found):
        raise ApiError("not-found", f"You have no token {token_id}.")
    if asked.token is not None and asked.token.id != token_id:
        raise ApiError("forbidden", "A token revokes itself alone. Sign in with a browser to revoke others.")
    tell(request, subject=token_id, project=found.project, name=found.name)
    with otherwise("not-found"):
        asked.service.accounts.revoke_token(token_id, person)
    return Response(status_code=204)


def _within(asked: Context, token: Token) -> bool:
    return asked.token is None or token.project == asked.project
