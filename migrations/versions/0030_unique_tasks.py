"""Tasks of which there is to be one at a time, and starts that are pushed back."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0030_unique_tasks"
down_revision = "0029_progress"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
