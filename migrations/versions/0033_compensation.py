"""Tasks that undo what another one did before it failed."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0033_compensation"
down_revision = "0032_maps"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
