"""The tables that hold the rules: lifecycles, states, transitions, guards, errors."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0001_rules"
down_revision = None
branch_labels = ("pgtasker",)
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
