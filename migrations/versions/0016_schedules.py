"""Tasks are created by the clock."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0016_schedules"
down_revision = "0015_final_validation"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
