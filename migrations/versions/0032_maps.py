"""Steps for the elements of a list."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0032_maps"
down_revision = "0031_children"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
