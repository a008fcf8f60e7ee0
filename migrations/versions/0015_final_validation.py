"""A task may wait for a verdict on the whole before it counts as done."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0015_final_validation"
down_revision = "0014_summaries"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
