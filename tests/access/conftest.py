"""The engine on a fresh database, or on one that the tests of a module share."""

from tests.kernel.conftest import engine, rules, shared_conn, tenant

__all__ = ["engine", "rules", "shared_conn", "tenant"]
