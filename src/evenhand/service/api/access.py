"""Who may ask for what: every route of the service with its rule, and the words that the log has for what it does.

A route that is not in this table is refused to everybody where there are accounts; a test compares both.
"""

from dataclasses import dataclass
from typing import Literal

from fastapi import Request

# "known": anybody with an account, in a browser or through a token. "signed in": in a browser only. The others are
# roles in the project that the request is about; "viewer" < "auditor" < "admin". "admin, signed in": what decides who
# may come in must not be done with a token, since what a stolen one made would outlive its revocation.
Who = Literal["open", "known", "signed in", "viewer", "auditor", "admin", "admin, signed in"]


@dataclass(frozen=True)
class Rule:
    """Who may use a route, and what the log says when it was used; None: nothing."""

    who: Who
    action: str | None = None


def _rules(who: Who, routes: dict[str, str | None]) -> dict[str, Rule]:
    return {route: Rule(who, action) for route, action in routes.items()}


OPEN: dict[str, str | None] = {
    "GET /healthz": None,
    "GET /readyz": None,
    "GET /sign-in": None,
    "POST /sign-in": None,  # noted where passwords are checked, with those that were wrong
}
KNOWN: dict[str, str | None] = {
    "GET /api/v1/openapi.json": None,
    "GET /api/v1/me": None,
    "GET /api/v1/projects": None,
    "GET /api/v1/me/tokens": None,
    "DELETE /api/v1/me/tokens/{token_id}": "revoked a token",
}
SIGNED_IN: dict[str, str | None] = {
    "POST /sign-out": "signed out",
    "POST /project": None,
    "GET /account": None,
    "POST /account/password": "changed own password",
    "POST /account/tokens": "made a token",
    "POST /api/v1/me/tokens": "made a token",
    "POST /account/tokens/{token_id}/revoke": "revoked a token",
}
VIEWER: dict[str, str | None] = {
    "GET /": None,
    "GET /runs": None,
    "GET /runs/{run_id}": None,
    "GET /runs/{run_id}/growth.json": None,
    "GET /runs/{run_id}/before_after.json": None,
    "GET /runs/{run_id}/rates.json": None,
    "GET /runs/{run_id}/report": None,
    "GET /runs/{run_id}/findings": None,
    "GET /compare": None,
    "GET /compare.json": None,
    "GET /settings": None,
    "GET /api/v1/builtin": None,
    "GET /api/v1/datasets": None,
    "GET /api/v1/datasets/{dataset_id}": None,
    "GET /api/v1/datasets/{dataset_id}/preview": None,
    "GET /api/v1/datasets/{dataset_id}/schema": None,
    "GET /api/v1/datasets/{dataset_id}/columns": None,
    "GET /api/v1/models": None,
    "GET /api/v1/models/{model_id}": None,
    "GET /api/v1/runs": None,
    "GET /api/v1/compare": None,
    "GET /api/v1/runs/{run_id}": None,
    "GET /api/v1/runs/{run_id}/events": None,
    "GET /api/v1/runs/{run_id}/events/stream": None,
    "GET /api/v1/runs/{run_id}/files": None,
    "GET /api/v1/runs/{run_id}/files/{name}": "downloaded a file of a run",
    "GET /api/v1/runs/{run_id}/findings": None,
    "GET /api/v1/runs/{run_id}/findings/values": None,
}
AUDITOR: dict[str, str | None] = {
    "GET /new": None,
    "POST /new/data": "uploaded data",
    "GET /new/columns": None,
    "POST /new/columns/label": "changed a schema",
    "POST /new/columns/text": "changed a schema",
    "POST /new/columns/texts": "changed a schema",
    "POST /new/columns": "changed a schema",
    "GET /new/model": None,
    "POST /new/model": "asked for a run",
    "GET /runs/{run_id}/repair": None,
    "POST /runs/{run_id}/repair": "asked for a repair",
    "GET /runs/{run_id}/measure": None,
    "POST /runs/{run_id}/measure": "asked for a measurement",
    "POST /runs/{run_id}/cancel": "cancelled a run",
    "POST /runs/{run_id}/resume": "resumed a run",
    "GET /runs/{run_id}/delete": None,
    "POST /runs/{run_id}/delete": "deleted a run",
    "GET /settings/{kind}/{known_as}/delete": None,
    "POST /settings/{kind}/{known_as}/delete": "deleted an upload",
    "POST /api/v1/datasets": "uploaded data",
    "DELETE /api/v1/datasets/{dataset_id}": "deleted an upload",
    "POST /api/v1/datasets/{dataset_id}/schema/infer": "changed a schema",
    "PUT /api/v1/datasets/{dataset_id}/schema": "changed a schema",
    "PUT /api/v1/datasets/{dataset_id}/columns": "changed a schema",
    "POST /api/v1/models": "uploaded a model",
    "PUT /api/v1/models/{model_id}/description": "described a model",
    "DELETE /api/v1/models/{model_id}": "deleted an upload",
    "POST /api/v1/runs": "asked for a run",
    "POST /api/v1/runs/{run_id}/cancel": "cancelled a run",
    "POST /api/v1/runs/{run_id}/resume": "resumed a run",
    "DELETE /api/v1/runs/{run_id}": "deleted a run",
    "POST /api/v1/runs/{run_id}/repair": "asked for a repair",
    "POST /api/v1/runs/{run_id}/measure": "asked for a measurement",
}
ADMIN: dict[str, str | None] = {
    "GET /metrics": None,
    "GET /admin/users": None,
    "GET /admin/users/{name}": None,
    "GET /admin/users/{name}/delete": None,
    "GET /admin/projects": None,
    "GET /admin/projects/{project_id}": None,
    "GET /admin/projects/{project_id}/delete": None,
    "GET /admin/log": None,
    "GET /api/v1/users": None,
    "GET /api/v1/projects/{project_id}/members": None,
    "GET /api/v1/log": None,
}
ADMIN_SIGNED_IN: dict[str, str | None] = {
    "POST /admin/users": "made a user",
    "POST /admin/users/{name}": "changed a user",
    "POST /admin/users/{name}/password": "set a password",
    "POST /admin/users/{name}/role": "changed a role",
    "POST /admin/users/{name}/tokens/{token_id}/revoke": "revoked a token",
    "POST /admin/users/{name}/delete": "deleted a user",
    "POST /admin/projects": "made a project",
    "POST /admin/projects/{project_id}": "renamed a project",
    "POST /admin/projects/{project_id}/role": "changed a role",
    "POST /admin/projects/{project_id}/delete": "deleted a project",
    "POST /api/v1/users": "made a user",
    "PATCH /api/v1/users/{name}": "changed a user",
    "DELETE /api/v1/users/{name}": "deleted a user",
    "POST /api/v1/projects": "made a project",
    "PATCH /api/v1/projects/{project_id}": "renamed a project",
    "DELETE /api/v1/projects/{project_id}": "deleted a project",
    "PUT /api/v1/projects/{project_id}/members/{name}": "changed a role",
}
RULES: dict[str, Rule] = {
    **_rules("open", OPEN),
    **_rules("known", KNOWN),
    **_rules("signed in", SIGNED_IN),
    **_rules("viewer", VIEWER),
    **_rules("auditor", AUDITOR),
    **_rules("admin", ADMIN),
    **_rules("admin, signed in", ADMIN_SIGNED_IN),
}
EARLIER = {"uploaded a table"}  # what a log may say from before there were texts
ACTIONS = sorted({rule.action for rule in RULES.values() if rule.action} | {"signed in", "sign-in refused"} | EARLIER)


def rule_of(request: Request) -> Rule | None:
    """The rule of the route that answers a request; None where nobody wrote one."""
    return RULES.get(f"{request.method} {getattr(request.scope.get('route'), 'path', '')}")
