"""Logins bound to namespaces, with a log of who bound them; stored answers belong to the login that got them."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0008_tenants"
down_revision = "0007_conditions_and_resumption"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
