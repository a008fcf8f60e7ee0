"""Lifecycles of rows in users' own tables, guards of one's own, counters for metrics."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0006_attached_lifecycles"
down_revision = "0005_time_and_failure"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
