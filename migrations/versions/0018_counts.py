"""Counts of what is sealed, and results of the archive in the order in which they were recorded."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0018_counts"
down_revision = "0017_pages"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
