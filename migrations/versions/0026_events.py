"""Steps wait for events from outside."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0026_events"
down_revision = "0025_dependency_rules"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
