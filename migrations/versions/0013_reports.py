"""Reports for auditors: indexes, what is known of archived rows."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0013_reports"
down_revision = "0012_retention"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
