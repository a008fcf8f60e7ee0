"""Metrics know what they have counted by number, not by transaction."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0019_metrics_cursor"
down_revision = "0018_counts"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
