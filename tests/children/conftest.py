"""Fixtures of the engine."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import leave_out_repetitions
from tests.workflow.fixtures import engine, open_engine

__all__ = ["engine", "open_engine"]


def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    leave_out_repetitions(config, items, Path(__file__).parent)
