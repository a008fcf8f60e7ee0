"""metrics_queues answers with a priority: what it was must go first."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0022_queue_metrics"
down_revision = "0021_claimants"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
