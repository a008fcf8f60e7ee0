"""Steps carry options, and the engine runs those that need no handler."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0024_options"
down_revision = "0023_definitions"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
