"""Big results in the Python worker: handlers read them like any other; what is too big fails in clear words."""

from __future__ import annotations

import json
import pickle
from typing import Any

import psycopg
import pytest

from pgtasker import Client, NotFound, PayloadTooLarge, StepContext, Worker
from pgtasker._steps import LoadedInputs
from tests.pyclient.conftest import client, graph
from tests.pyclient.test_worker import only_step

__all__ = ["client"]

BIG = {"text": "x" * 100_000}
SECOND = ["y" * 100_000]

Connection = psycopg.Connection[Any]


def make(ctx: StepContext) -> Any:
    return {"make": BIG, "second": SECOND, "small": 1}[ctx.name]


def use(ctx: StepContext) -> Any:
    return {
        "sum": len(ctx.inputs["make"]["text"]) + len(ctx.inputs["second"][0]) + ctx.inputs["small"],
        "copied": len(json.dumps({**ctx.inputs})),
    }


@pytest.mark.parametrize("executor", ["thread", "process", "async"])
def test_handlers_read_big_inputs_like_any_other(
    database: str, client: Client, conn: Connection, executor: str
) -> None:
    worker = Worker(database, executor="process" if executor == "process" else "thread")
    worker.step("make")(make)
    if executor == "async":

        @worker.step("use")
        async def use_async(ctx: StepContext) -> Any:
            big = await ctx.input_async("make")
            assert await ctx.input_async("make") is big, "loaded once"
            with pytest.raises(KeyError):
                await ctx.input_async("nothing of that name")
            return use(ctx)

    else:
        worker.step("use")(use)
    task = client.create_task_from_graph(
        {
            "name": "t",
            "steps": [
                *({"name": name, "handler": "make"} for name in ("make", "second", "small")),
                {"name": "use", "depends_on": ["make", "second", "small"]},
            ],
        }
    )
    (done,) = worker.run_until(task, timeout=60)
    assert done.phase == "succeeded"
    steps = {step.name: step for step in client.steps(task)}
    inputs = {"make": BIG, "second": SECOND, "small": 1}
    assert steps["use"].result == {"sum": 200_001, "copied": len(json.dumps(inputs))}
    assert set(steps["make"].result) == {"payload_uuid", "size", "sha256"}
    assert client.load_result(steps["make"].workflow_step_uuid) == BIG
    assert client.load_result(steps["make"].result["payload_uuid"]) == BIG
    assert client.load_result(steps["small"].workflow_step_uuid) == 1
    with pytest.raises(NotFound):
        client.load_result(task)


def test_sensitive_ones_too(database: str, client: Client) -> None:
    worker = Worker(database)
    worker.step("make")(make)
    worker.step("use")(lambda ctx: len(ctx.inputs["make"]["text"]))
    task = client.create_task_from_graph(
        {"name": "t", "steps": [{"name": "make", "sensitive_result": True}, {"name": "use", "depends_on": ["make"]}]}
    )
    worker.run_until(task, timeout=30)
    made, used = client.steps(task)
    assert (made.result, used.result) == ("[sensitive]", 100_000)
    assert client.load_result(made.workflow_step_uuid) == "[sensitive]"


def test_a_claim_of_the_client_says_which_inputs_are_big(client: Client) -> None:
    client.create_task_from_graph(graph("make", "use<make"))
    worker = client.register_worker("w")
    (held,) = client.claim_steps(worker)
    assert held.payloads is None
    client.complete_step(held.workflow_step_uuid, held.claim_uuid, BIG)
    client.orchestrate()
    (held,) = client.claim_steps(worker)
    assert held.payloads == ["make"]
    assert client.load_result(held.inputs["make"]["payload_uuid"], held.claim_uuid) == BIG


@pytest.mark.parametrize("batch", [1, 5])
@pytest.mark.parametrize("drive", [True, False])
def test_a_result_that_is_too_big_is_a_permanent_failure_in_words(
    database: str, client: Client, batch: int, drive: bool
) -> None:
    client.ensure_namespace("default")
    client.set_payload_limits("default", limit=70_000)
    worker = Worker(database, drive=drive)
    worker.step("make")(lambda ctx: BIG if ctx.name == "s0" else ctx.name)
    task = client.create_task_from_graph(
        {"name": "t", "steps": [{"name": f"s{n}", "handler": "make"} for n in range(batch)]}
    )
    summary = worker.run_until_idle(timeout=30)
    client.orchestrate()
    steps = client.steps(task)
    assert (summary.succeeded, summary.failed, summary.refused) == (batch - 1, 1, 0)
    failed, *others = steps
    assert failed.attempts == 1
    assert failed.last_error["type"] == "PayloadTooLarge"
    assert "namespace default takes at most 70000" in failed.last_error["message"]
    assert failed.phase == "failed"
    assert all(step.phase == "succeeded" for step in others)


def test_a_checkpoint_that_is_too_big_fails_for_good_unless_the_handler_knows_better(
    database: str, client: Client
) -> None:
    client.ensure_namespace("default")
    client.set_payload_limits("default", limit=70_000)
    worker = Worker(database)

    @worker.step("careless")
    def careless(ctx: StepContext) -> None:
        ctx.save_checkpoint(BIG)

    @worker.step("careful")
    def careful(ctx: StepContext) -> Any:
        try:
            ctx.save_checkpoint(BIG)
        except PayloadTooLarge as error:
            return error.detail
        return None

    task = client.create_task_from_graph({"name": "t", "steps": [{"name": "careless"}, {"name": "careful"}]})
    worker.run_until(task, timeout=30)
    first, second = client.steps(task)
    assert (first.phase, first.attempts) == ("failed", 1)
    assert second.result == {"what": "the checkpoint", "size": 100_012, "limit": 70_000, "namespace": "default"}


def test_details_of_an_error_that_are_too_big_leave_the_error(database: str, client: Client) -> None:
    client.ensure_namespace("default")
    client.set_payload_limits("default", limit=70_000)
    worker = Worker(database)

    @worker.step("fail")
    def fail(ctx: StepContext) -> None:
        error = RuntimeError("it broke")
        error.details = BIG  # type: ignore[attr-defined]
        raise error

    task = client.create_task_from_graph(graph({"name": "a", "handler": "fail", "max_attempts": 1}))
    worker.run_until(task, timeout=30)
    assert only_step(client, task).last_error["type"] == "PayloadTooLarge"


def test_a_result_with_checks_after_it_may_be_too_big_too(database: str, client: Client) -> None:
    client.ensure_namespace("default")
    client.set_payload_limits("default", limit=70_000)
    worker = Worker(database)
    worker.step("make")(lambda ctx: BIG)
    worker.check("fine")(lambda ctx, result: None)
    step = {"name": "a", "handler": "make", "acceptance": [{"type": "custom", "handler": "fine"}]}
    task = client.create_task_from_graph({**graph(step), "vocabulary": "execution"})
    worker.run_until_idle(timeout=30)
    client.orchestrate()
    failed = only_step(client, task)
    assert failed.last_error["type"] == "PayloadTooLarge"
    assert failed.attempts == 1


def test_inputs_that_are_loaded_later_are_a_dict_in_every_use() -> None:
    loaded: list[str] = []

    def load(told: dict[str, str]) -> str:
        loaded.append(told["payload_uuid"])
        return told["payload_uuid"].upper()

    def inputs() -> LoadedInputs:
        return LoadedInputs({"a": 1, "b": {"payload_uuid": "x"}}, ["b"], load)

    whole = {"a": 1, "b": "X"}
    one = inputs()
    assert one["a"] == 1
    assert (len(one), list(one), "b" in one, one.get("none", 7)) == (2, ["a", "b"], True, 7)
    assert loaded == [], "none was read yet"
    assert (one["b"], one["b"], loaded) == ("X", "X", ["x"])
    for read in (
        dict, lambda i: {**i}, lambda i: i.copy(), lambda i: dict(i.items()), lambda i: json.loads(json.dumps(i)),
        lambda i: pickle.loads(pickle.dumps(i)), lambda i: i | {}, lambda i: {} | i, lambda i: dict(zip(i, i.values(), strict=True)),
        lambda i: {"a": 1, "b": i.pop("b")}, lambda i: {"a": 1, "b": i.get("b")},
    ):  # fmt: skip
        assert read(inputs()) == whole
    assert inputs() == whole
    assert inputs() != {"a": 1}
