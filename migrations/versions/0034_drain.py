"""Workers whose process is to stop."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0034_drain"
down_revision = "0033_compensation"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
