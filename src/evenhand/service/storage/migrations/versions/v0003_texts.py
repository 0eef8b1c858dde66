"""Texts beside tables: what kind of data an upload is."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Everything uploaded until now is a table."""
    op.add_column("datasets", sa.Column("domain", sa.String(10), nullable=False, server_default="table"))
