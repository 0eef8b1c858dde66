"""Who may do what, as tests expect it: every route, everybody who may ask, and what they get."""

from dataclasses import dataclass
from typing import Any

from tests.worlds.api import TABLE
from tests.worlds.people import PASSWORD
from tests.worlds.service import SMALL_AUDIT

API = "/api/v1"
BYTES = b"tree\n"
TEXTS = b"text,label\nHe is late.,n\nShe is bad.,y\n"


@dataclass(frozen=True)
class Row:
    """A request to a route: who may make it, what they get, and what others get who may do the same elsewhere."""

    route: str
    who: str
    status: int = 200
    elsewhere: int | None = None  # None: the same; 404: what it is about is not there for them
    address: str = ""  # where it is not the route's own
    send: Any = None  # JSON as a dictionary, bytes, or a form as a list of fields


def rows(who: str, *entries: tuple[Any, ...]) -> list[Row]:
    return [Row(entry[0], who, **dict(zip(("status", "elsewhere", "address", "send"), entry[1:], strict=False)))
            for entry in entries]  # fmt: skip


RUN, DATA, MODEL = "/api/v1/runs/{run_id}", "/api/v1/datasets/{dataset_id}", "/api/v1/models/{model_id}"
USER, PROJECT = "/admin/users/{name}", "/admin/projects/{project_id}"
NOT_THERE, SAME, OWN = 404, None, ""
TABLE_OF_ACCESS = [
    *rows(
        "open",
        ("GET /healthz",),
        ("GET /readyz",),
        ("GET /sign-in",),
        ("POST /sign-in", 403, SAME, OWN, [("name", "{name}"), ("password", "wrong")]),
    ),
    *rows(
        "known",
        ("GET /api/v1/openapi.json",),
        ("GET /api/v1/me",),
        ("GET /api/v1/projects",),
        ("GET /api/v1/me/tokens",),
        ("DELETE /api/v1/me/tokens/{token_id}", 404),
    ),
    *rows(
        "signed in",
        ("POST /sign-out", 303, SAME, OWN, []),
        ("POST /project", 400, SAME, OWN, [("project", "nowhere")]),
        ("GET /account",),
        ("POST /account/password", 400, SAME, OWN, [("new", "a"), ("again", "b")]),
        ("POST /account/tokens", 400, SAME, OWN, [("days", "soon")]),
        ("POST /api/v1/me/tokens", 400, SAME, OWN, {"name": " ", "role": "viewer", "days": 1, "password": PASSWORD}),
        ("POST /account/tokens/{token_id}/revoke", 400, SAME, OWN, []),
    ),
    *rows(
        "viewer",
        ("GET /",),
        ("GET /runs",),
        ("GET /runs/{run_id}", 200, NOT_THERE),
        ("GET /runs/{run_id}/growth.json", 200, NOT_THERE),
        ("GET /runs/{run_id}/before_after.json", 200, NOT_THERE),
        ("GET /runs/{run_id}/rates.json", 200, NOT_THERE),
        ("GET /runs/{run_id}/report", 200, NOT_THERE),
        ("GET /runs/{run_id}/findings", 200, NOT_THERE),
        ("GET /compare", 200, 400, "/compare?a={run_id}&b={second_run}"),
        ("GET /compare.json", 200, SAME, "/compare.json?a={run_id}&b={second_run}"),
        ("GET /settings",),
        ("GET /api/v1/builtin",),
        ("GET /api/v1/datasets",),
        (f"GET {DATA}", 200, NOT_THERE),
        (f"GET {DATA}/preview", 200, NOT_THERE),
        (f"GET {DATA}/schema", 200, NOT_THERE),
        (f"GET {DATA}/columns", 200, NOT_THERE, "/api/v1/datasets/{text_id}/columns"),
        ("GET /api/v1/models",),
        (f"GET {MODEL}", 200, NOT_THERE),
        ("GET /api/v1/runs",),
        ("GET /api/v1/compare", 200, NOT_THERE, "/api/v1/compare?a={run_id}&b={second_run}"),
        (f"GET {RUN}", 200, NOT_THERE),
        (f"GET {RUN}/events", 200, NOT_THERE),
        (f"GET {RUN}/events/stream", 200, NOT_THERE),
        (f"GET {RUN}/files", 200, NOT_THERE),
        (f"GET {RUN}/files/{{name}}", 200, NOT_THERE, f"{RUN}/files/summary.json"),
        (f"GET {RUN}/findings", 200, NOT_THERE),
        (f"GET {RUN}/findings/values", 200, NOT_THERE),
    ),
    *rows(
        "auditor",
        ("GET /new",),
        ("POST /new/data", 400, SAME, OWN, []),
        ("GET /new/columns", 200, NOT_THERE, "/new/columns?data={dataset_id}"),
        ("POST /new/columns/label", 303, NOT_THERE, OWN, [("data", "{dataset_id}"), ("label", "ok")]),
        ("POST /new/columns/text", 303, NOT_THERE, OWN, [("data", "{dataset_id}"), ("text", "{schema}")]),
        ("POST /new/columns/texts", 400, NOT_THERE, OWN, [("data", "{text_id}"), ("text", "body"), ("label", "label")]),
        ("POST /new/columns", 400, NOT_THERE, OWN, [("data", "{dataset_id}")]),
        ("GET /new/model", 200, NOT_THERE, "/new/model?data={dataset_id}&protected=sex"),
        ("POST /new/model", 400, NOT_THERE, OWN, [("data", "{dataset_id}"), ("protected", "sex")]),
        ("GET /runs/{run_id}/repair", 200, NOT_THERE),
        ("POST /runs/{run_id}/repair", 303, NOT_THERE, OWN, [("by", "average"), ("repeats", "1")]),
        ("GET /runs/{run_id}/measure", 200, NOT_THERE),
        ("POST /runs/{run_id}/measure", 400, NOT_THERE, OWN, []),
        ("POST /runs/{run_id}/cancel", 303, NOT_THERE, OWN, []),
        ("POST /runs/{run_id}/resume", 409, NOT_THERE, OWN, []),
        ("GET /runs/{run_id}/delete", 200, NOT_THERE),
        ("POST /runs/{run_id}/delete", 303, NOT_THERE, OWN, []),
        ("GET /settings/{kind}/{known_as}/delete", 200, NOT_THERE, "/settings/datasets/{dataset_id}/delete"),
        ("POST /settings/{kind}/{known_as}/delete", 303, NOT_THERE, "/settings/models/{model_id}/delete", []),
        ("POST /api/v1/datasets", 201, SAME, "/api/v1/datasets?filename=a.csv", TABLE),
        (f"DELETE {DATA}", 204, NOT_THERE),
        (f"POST {DATA}/schema/infer", 200, NOT_THERE, OWN, {"label": "ok"}),
        (f"PUT {DATA}/schema", 200, NOT_THERE, OWN, {"text": "{schema}"}),
        (f"PUT {DATA}/columns", 200, NOT_THERE, "/api/v1/datasets/{text_id}/columns", {"label": "label"}),
        ("POST /api/v1/models", 201, SAME, "/api/v1/models?filename=a.txt", BYTES),
        (f"PUT {MODEL}/description", 400, NOT_THERE, OWN, {}),
        (f"DELETE {MODEL}", 204, NOT_THERE),
        ("POST /api/v1/runs", 201, SAME, OWN, {"kind": "audit", "request": SMALL_AUDIT}),
        (f"POST {RUN}/cancel", 200, NOT_THERE, OWN, {}),
        (f"POST {RUN}/resume", 409, NOT_THERE, OWN, {}),
        (f"DELETE {RUN}", 204, NOT_THERE),
        (f"POST {RUN}/repair", 201, NOT_THERE, OWN, {}),
        (f"POST {RUN}/measure", 201, NOT_THERE, OWN, {}),
    ),
    *rows(
        "admin",
        ("GET /metrics",),
        ("GET /admin/users",),
        (f"GET {USER}", 200),
        (f"GET {USER}/delete", 200),
        ("GET /admin/projects",),
        (f"GET {PROJECT}", 200),
        (f"GET {PROJECT}/delete", 200),
        ("GET /admin/log",),
        ("GET /api/v1/users",),
        ("GET /api/v1/projects/{project_id}/members", 200),
        ("GET /api/v1/log",),
    ),
    *rows(
        "admin, signed in",
        ("POST /admin/users", 400, SAME, OWN, [("name", "?")]),
        (f"POST {USER}", 303, SAME, OWN, [("do", "admin")]),
        (f"POST {USER}/password", 303, SAME, OWN, [("password", "a new long password")]),
        (f"POST {USER}/role", 303, SAME, OWN, [("project", "default"), ("role", "viewer")]),
        (f"POST {USER}/tokens/{{token_id}}/revoke", 303, SAME, OWN, []),
        (f"POST {USER}/delete", 303, SAME, OWN, []),
        ("POST /admin/projects", 400, SAME, OWN, [("name", "")]),
        (f"POST {PROJECT}", 303, SAME, OWN, [("name", "Renamed {project_id}")]),
        (f"POST {PROJECT}/role", 303, SAME, OWN, [("user", "{name}"), ("role", "auditor")]),
        (f"POST {PROJECT}/delete", 303, SAME, OWN, []),
        ("POST /api/v1/users", 400, SAME, OWN, {"name": "?", "password": "a long password"}),
        ("PATCH /api/v1/users/{name}", 200, SAME, OWN, {"disabled": True}),
        ("DELETE /api/v1/users/{name}", 204),
        ("POST /api/v1/projects", 400, SAME, OWN, {"name": " "}),
        ("PATCH /api/v1/projects/{project_id}", 200, SAME, OWN, {"name": "Another {project_id}"}),
        ("DELETE /api/v1/projects/{project_id}", 204),
        ("PUT /api/v1/projects/{project_id}/members/{name}", 200, SAME, OWN, {"role": "auditor"}),
    ),
]  # fmt: skip
# Role, whether it is elsewhere, whether it is a browser. None: not known at all.
CALLERS: dict[str, tuple[str, bool, bool] | None] = {
    "nobody": None,
    "viewer": ("viewer", False, True),
    "auditor": ("auditor", False, True),
    "admin": ("admin", False, True),
    "auditor of another project": ("auditor", True, True),
    "member of no project": ("", True, True),
    "disabled user": None,
    "token of a viewer": ("viewer", False, False),
    "token of an auditor": ("auditor", False, False),
    "viewer's token of an auditor": ("viewer", False, False),
    "token of an admin": ("admin", False, False),
    "token of another project": ("auditor", True, False),
    "admin's token of another project": ("admin", True, False),
    "expired token": None,
    "revoked token": None,
    "token of a disabled user": None,
    "made-up token": None,
}
RANK = {"": 0, "viewer": 1, "auditor": 2, "admin": 3}


def expected(row: Row, caller: str) -> int | str:
    """What a caller gets: a status, or the sign-in page."""
    known = CALLERS[caller]
    if row.who == "open":
        return 303 if row.route == "GET /sign-in" and known else row.status
    if known is None:
        return 401 if row.route.split(" ")[1].startswith((API, "/metrics")) else "sign in"
    role, is_elsewhere, is_browser = known
    who, _, in_person = row.who.partition(", ")
    if "signed in" in (who, in_person) and not is_browser:
        return 403
    if who in RANK and RANK[role] < RANK[who]:
        return 403
    if row.route == "POST /sign-out":
        return "sign in"
    return row.elsewhere if is_elsewhere and row.elsewhere is not None else row.status
