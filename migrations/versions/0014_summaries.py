"""Logs are summarised for questions about a period as they grow."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0014_summaries"
down_revision = "0013_reports"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
