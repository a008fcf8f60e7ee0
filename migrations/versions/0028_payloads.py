"""Big results stand in a table of their own."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0028_payloads"
down_revision = "0027_limits"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
