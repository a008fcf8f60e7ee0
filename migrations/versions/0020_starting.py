"""When and in what order work starts: start times, delays, priorities, paused namespaces."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0020_starting"
down_revision = "0019_metrics_cursor"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
