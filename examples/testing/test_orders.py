"""Tests of the service in examples/python/orders.py.

python -m pytest examples/testing
"""

from orders import TEMPLATE, worker

from pgtasker import PermanentError
from pgtasker.testing import Workbench


def test_an_order_is_shipped_by_the_real_handlers(workbench: Workbench) -> None:
    workbench.client.register_template(TEMPLATE)
    task = workbench.client.create_task("ship-order", {"order": 7, "items": ["tea", "cup"]}, namespace="shop")

    workbench.run_until_idle(worker)  # charging fails the first time, and waits for its retry
    workbench.advance(2)
    workbench.run_until_idle(worker)

    assert workbench.client.task(task).state == "complete"
    steps = {step.name: step for step in workbench.client.steps(task)}
    assert steps["ship"].result == {"label": "receipt for order 7, from shelf 2"}
    workbench.assert_transition(
        steps["charge"].workflow_step_uuid, "in_progress", "enqueued_as_error_for_orchestration"
    )
    workbench.assert_consistent()


def test_what_can_not_be_charged_is_not_shipped(workbench: Workbench) -> None:
    workbench.client.register_template(TEMPLATE)
    task = workbench.client.create_task("ship-order", {"order": 8, "items": ["tea"]}, namespace="shop")

    workbench.drain({"reserve": {"shelf": 1}, "charge": PermanentError("card refused")})

    assert workbench.states(task) == {"reserve": "complete", "charge": "error", "ship": "pending"}
    assert workbench.client.task(task).state == "blocked_by_failures"
    workbench.assert_transition(task, "evaluating_results", "blocked_by_failures")
