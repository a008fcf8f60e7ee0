"""Values that a template marks as sensitive stand apart from what people read."""

from pgtasker.migrate import refuse_downgrade, run_script

revision = "0011_sensitive_values"
down_revision = "0010_validation_time"
branch_labels = None
depends_on = None


def upgrade() -> None:
    run_script(f"{revision}.sql")


def downgrade() -> None:
    refuse_downgrade(revision)
