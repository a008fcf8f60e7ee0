"""Steps run tasks and wait for their end."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0031_children"
down_revision = "0030_unique_tasks"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
