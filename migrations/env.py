"""Alembic's entry; what happens around the migrations stands in pgtasker.migrate, installed with the package."""

from alembic import context

from pgtasker.migrate import run_environment

run_environment(context)
