"""What Alembic runs: the migrations on the connection that `storage.upgrade` hands over, inside its transaction."""

from alembic import context

from evenhand.service.storage.tables import Base

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    render_as_batch=True,  # SQLite changes a table by copying it
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
