"""Statistics are renewed when there is something to learn from them."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0039_quiet_statistics"
down_revision = "0038_narrow_rows"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
