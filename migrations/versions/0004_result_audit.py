"""The audit table of step results, filled for the transitions that are already there."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0004_result_audit"
down_revision = "0003_drive"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
