"""Accounts: users, their projects, sign-ins, tokens, the log; and where a run is done, for whom, with which schema."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

LONG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables, add the columns."""
    op.add_column("runs", sa.Column("place", sa.String(20), nullable=False, server_default="worker"))
    op.add_column("runs", sa.Column("asked_by", sa.String(100)))
    op.add_column("runs", sa.Column("schema_text", sa.Text))
    op.create_table(
        "users",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("password", sa.String(200), nullable=False),
        sa.Column("admin", sa.Boolean, nullable=False),
        sa.Column("disabled", sa.Boolean, nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name", name=op.f("uq_users_name")),
    )
    op.create_table(
        "members",
        sa.Column("user", sa.String(32), nullable=False),
        sa.Column("project", sa.String(32), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.PrimaryKeyConstraint("user", "project", name=op.f("pk_members")),
        _key("members", "user", "users"),
        _key("members", "project", "projects"),
    )
    op.create_index(op.f("ix_members_project"), "members", ["project"])
    op.create_table(
        "sign_ins",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("user", sa.String(32), nullable=False),
        sa.Column("project", sa.String(32)),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("seen", MOMENT, nullable=False),
        sa.Column("expires", MOMENT, nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sign_ins")),
        _key("sign_ins", "user", "users"),
        _key("sign_ins", "project", "projects", "SET NULL"),
    )
    op.create_index(op.f("ix_sign_ins_user"), "sign_ins", ["user"])
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("user", sa.String(32), nullable=False),
        sa.Column("project", sa.String(32), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created", MOMENT, nullable=False),
        sa.Column("expires", MOMENT, nullable=False),
        sa.Column("used", MOMENT),
        sa.Column("revoked", MOMENT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_tokens_digest")),
        _key("tokens", "user", "users"),
        _key("tokens", "project", "projects"),
    )
    op.create_index(op.f("ix_tokens_user"), "tokens", ["user"])
    op.create_table(
        "log",
        sa.Column("id", LONG, nullable=False, autoincrement=True),
        sa.Column("at", MOMENT, nullable=False),
        sa.Column("user", sa.String(100)),
        sa.Column("address", sa.String(100)),
        sa.Column("action", sa.String(50), nullable=False),
        sa.Column("project", sa.String(32)),
        sa.Column("subject", sa.String(200)),
        sa.Column("data", sa.JSON, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_log")),
    )
    op.create_index("ix_log_action_at", "log", ["action", "at"])


def _key(table: str, column: str, other: str, on_delete: str = "CASCADE") -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_{column}_{other}")
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=name, ondelete=on_delete)
