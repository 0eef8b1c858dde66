"""The first tables: projects, data sets, models, runs and their events."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

LONG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "projects",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("name", name=op.f("uq_projects_name")),
    )
    _files("datasets", sa.Column("rows", LONG), sa.Column("schema_text", sa.Text))
    _files("models")
    op.create_table(
        "runs",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("project", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("parent", sa.String(32)),
        sa.Column("state", sa.String(20), nullable=False),
        sa.Column("cancel", sa.Boolean, nullable=False),
        sa.Column("progress", sa.JSON, nullable=False),
        sa.Column("result", sa.JSON),
        sa.Column("error", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("started", MOMENT),
        sa.Column("finished", MOMENT),
        sa.Column("worker", sa.String(100)),
        sa.Column("lease", LONG, nullable=False),
        sa.Column("lease_until", MOMENT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        _of_project("runs"),
        sa.ForeignKeyConstraint(["parent"], ["runs.id"], name=op.f("fk_runs_parent_runs"), ondelete="SET NULL"),
    )
    op.create_index("ix_runs_waiting", "runs", ["state", "created"])
    op.create_index("ix_runs_listed", "runs", ["project", "created", "id"])
    op.create_table(
        "events",
        sa.Column("id", LONG, nullable=False, autoincrement=True),
        sa.Column("run", sa.String(32), nullable=False),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("kind", sa.String(30), nullable=False),
        sa.Column("data", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name=op.f("fk_events_run_runs"), ondelete="CASCADE"),
    )
    op.create_index(op.f("ix_events_run"), "events", ["run"])


def _files(table: str, *columns: sa.Column) -> None:  # type: ignore[type-arg]
    """A table of uploaded files."""
    op.create_table(
        table,
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("project", sa.String(32), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("file", sa.String(200), nullable=False),
        sa.Column("size", LONG, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        *columns,
        sa.Column("created", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        _of_project(table),
    )
    op.create_index(op.f(f"ix_{table}_project"), table, ["project"])


def _of_project(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_project_projects")
    return sa.ForeignKeyConstraint(["project"], ["projects.id"], name=name, ondelete="CASCADE")
