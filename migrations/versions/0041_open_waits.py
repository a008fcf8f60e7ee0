"""What waits for an event now is found without what waited before."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0041_open_waits"
down_revision = "0040_inline_changes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
