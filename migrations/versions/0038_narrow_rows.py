"""Steps are sent to their queues by their keys alone."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0038_narrow_rows"
down_revision = "0037_cheaper_rows"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
