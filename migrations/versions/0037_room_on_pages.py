"""Rows that are written again and again find room beside themselves."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0037_room_on_pages"
down_revision = "0036_state_index"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
