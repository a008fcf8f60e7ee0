"""How many steps run at once, and how many start in a time, for each tool, namespace and template."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0027_limits"
down_revision = "0026_events"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
