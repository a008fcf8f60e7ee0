"""Steps with a condition, timeouts of tools, tasks that go on where a cancelled one stopped."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0007_conditions_and_resumption"
down_revision = "0006_attached_lifecycles"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
