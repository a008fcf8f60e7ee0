"""Tasks are found page by page, by state, namespace and name, however many there are."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0017_pages"
down_revision = "0016_schedules"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
