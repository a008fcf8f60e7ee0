"""The index of tasks by state serves only those who ask by state."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0036_state_index"
down_revision = "0035_handlers"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
