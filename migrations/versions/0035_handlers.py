"""Workers name their handlers and leave the steps of others to others."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0035_handlers"
down_revision = "0034_drain"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
