"""Rows of the change feed stand in their pages as they are."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0040_inline_changes"
down_revision = "0039_quiet_statistics"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
