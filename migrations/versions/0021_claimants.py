"""Steps are handed to the worker that made them ready."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0021_claimants"
down_revision = "0020_starting"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
