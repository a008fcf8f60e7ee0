"""The tables that hold the work: templates, tasks, steps, edges, transition logs."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0002_work"
down_revision = "0001_rules"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
