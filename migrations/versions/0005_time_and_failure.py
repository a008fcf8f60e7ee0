"""Time, failure and repetition: timeouts, workers, circuit breakers, checkpoints, idempotency keys."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0005_time_and_failure"
down_revision = "0004_result_audit"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
