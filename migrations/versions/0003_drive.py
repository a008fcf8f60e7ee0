"""What drives the work: queues, timers, workers, processors, claims."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0003_drive"
down_revision = "0002_work"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
