"""Steps say when they may start."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0025_dependency_rules"
down_revision = "0024_options"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
