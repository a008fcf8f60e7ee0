"""A limit for the time that acceptance checks take."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0010_validation_time"
down_revision = "0009_seals"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
