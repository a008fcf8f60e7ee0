"""Rows of tasks and steps: room beside them for what they become, and no digest that nobody compares."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0037_cheaper_rows"
down_revision = "0036_state_index"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
