"""What changes in the progress counters of tasks has a type."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0029_progress"
down_revision = "0028_payloads"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
