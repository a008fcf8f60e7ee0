"""Retention policies, legal holds, an archive by month, evidence of what was purged."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0012_retention"
down_revision = "0011_sensitive_values"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
