"""Fixtures of the engine."""

from tests.workflow.fixtures import engine, open_engine

__all__ = ["engine", "open_engine"]
