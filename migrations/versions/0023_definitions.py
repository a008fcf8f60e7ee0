"""What the tree and the migrations made is noted with its definition, so that it can be mended."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0023_definitions"
down_revision = "0022_queue_metrics"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
