"""A shop with two orders whose table has the lifecycle order.order."""

from __future__ import annotations

import pytest

from tests.cli.conftest import cli, run_cli
from tests.export.history import shop
from tests.kernel.conftest import engine
from tests.kernel.engine import Engine

__all__ = ["cli", "engine", "run_cli"]


@pytest.fixture
def orders(engine: Engine) -> Engine:
    """The engine, with table shop.orders (order_id int, amount) attached and the orders 1 and 2 placed."""
    shop(engine.conn)
    return engine
