"""The engine on a fresh database; the rest of what these tests need stands with the topics it belongs to."""

from tests.access.conftest import engine

__all__ = ["engine"]
