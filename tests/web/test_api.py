"""The HTTP API: every route calls its function, refusals keep their codes, and the caller is who the token says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pgtasker.web import api, problems
from pgtasker.web.gate import Gate, TokenFileError, new_token, read_tokens
from tests.kernel.engine import DIAMOND, Engine, chain
from tests.web.conftest import Api, Serve, serving_api

PROBLEM = "application/problem+json"
WHY = {"reason": "it was asked for"}


def new_task(served: Api, *steps: Any, **fields: Any) -> UUID:
    answer = served["client"].post(
        "/v1/tasks/graph", json={"graph": {"name": "flow", "steps": list(steps) or chain("a", "b")}, **fields}
    )
    assert answer.status_code == 201, answer.text
    return UUID(answer.json()["task_uuid"])


def step_of(served: Api, task: UUID, name: str = "a") -> str:
    steps = served["operator"].get(f"/v1/tasks/{task}/workflow_steps").json()["steps"]
    return next(str(step["workflow_step_uuid"]) for step in steps if step["name"] == name)


def test_a_task_from_template_to_audit_trail(served: Api) -> None:
    client, worker = served["client"], served["worker"]
    template = {"name": "flow", "version": "1", "steps": chain("a", "b")}
    assert client.post("/v1/templates", json={"template": template}).status_code == 201
    answer = client.post("/v1/tasks", json={"name": "flow", "context": {"order": 7}, "requested_by": "ada"})
    assert answer.status_code == 201
    task = answer.json()["task_uuid"]
    assert answer.headers["location"] == f"/v1/tasks/{task}"
    assert client.get(answer.headers["location"]).json()["requested_by"] == "ada via the-client"

    made = worker.post("/api/workers", json={"name": "w", "vocabulary": "tasker"})
    assert made.status_code == 201
    me = made.json()["id"]
    for name in ("a", "b"):
        (claimed,) = worker.post(f"/v1/workers/{me}/claims", json={"limit": 5}).json()
        assert (claimed["name"], claimed["context"]) == (name, {"order": 7})
        done = worker.post(
            f"/v1/workflow_steps/{claimed['workflow_step_uuid']}/complete",
            json={"claim_uuid": claimed["claim_uuid"], "result": {"by": name}, "execution_time_ms": 3},
        )
        assert done.status_code == 200, done.text
        served.engine.orchestrate()
    assert client.get(f"/v1/tasks/{task}").json()["phase"] == "succeeded"

    step = step_of(served, UUID(task))
    (record,) = served["auditor"].get(f"/v1/tasks/{task}/workflow_steps/{step}/audit").json()["records"]
    assert (record["success"], record["worker_uuid"], record["metadata"]["result"]) == (True, me, {"by": "a"})
    assert len(served["auditor"].get(f"/v1/tasks/{task}/audit").json()["records"]) == 2
    assert len(served["auditor"].get(f"/v1/audit/workers/{me}").json()["records"]) == 2
    assert len(served["auditor"].get(f"/v1/audit/correlations/{record['correlation_id']}").json()["records"]) == 2
    log = client.get(f"/v1/tasks/{task}/transitions").json()["transitions"]
    assert {entry["kind"] for entry in log} == {"task", "step"}
    assert "ended as complete" in client.get(f"/v1/tasks/{task}/explanation").json()["summary"]


def test_a_unique_key_is_answered_with_the_task_that_stands_for_it(served: Api) -> None:
    client = served["client"]
    client.post("/v1/templates", json={"template": {"name": "once", "steps": chain("a")}})
    wanted = {"name": "once", "unique_key": "k"}
    first, second = (client.post("/v1/tasks", json=wanted, headers={"Idempotency-Key": key}) for key in "xy")
    assert (first.status_code, first.json()["outcome"]) == (201, "created")
    assert (second.status_code, second.json()) == (200, {**first.json(), "outcome": "duplicate"})
    assert client.post("/v1/tasks", json=wanted, headers={"Idempotency-Key": "x"}).status_code == 201, (
        "as the first time"
    )
    for status in (201, 200):
        answer = client.post("/v1/tasks", json={"name": "once", "unique_key": "d", "debounce_seconds": 60})
        assert answer.status_code == status, answer.text
    assert answer.json()["outcome"] == "pushed_back"
    assert client.post("/v1/tasks", json={"name": "once", "debounce_seconds": 60}).status_code == 400
    for task in (first.json(), answer.json()):
        assert client.post(f"/v1/tasks/{task['task_uuid']}/cancel", json=WHY).status_code == 200


def test_the_workers_of_seed_003(served: Api) -> None:
    """Its integration tests (6.2), with its own paths and bodies."""
    client = served["operator"]
    worker_id = client.post("/api/workers", json={"workspace_id": "ws_test"}).json()["id"]
    started = client.post(f"/api/workers/{worker_id}/start")
    assert started.json() == {"id": worker_id, "status": "RUNNING"}
    response = client.post(f"/api/supervisor/workers/{worker_id}/pause", json={"reason": "Test pause"})
    assert response.status_code == 200
    assert response.json()["status"] == "PAUSED"

    worker_id = client.post("/api/workers", json={"workspace_id": "ws_test"}).json()["id"]
    client.post(f"/api/workers/{worker_id}/start")
    twice = [
        client.post(f"/api/supervisor/workers/{worker_id}/pause", json={"request_id": "req_abc123"}) for _ in range(2)
    ]
    assert twice[0].json() == twice[1].json() and twice[0].status_code == 200
    kept = served.engine.values(
        "select metadata ->> 'reason' from tasker.worker_transitions where worker_uuid = %s and metadata ? 'manual'",
        worker_id,
    )
    assert kept[-1] == "POST /api/supervisor/workers/{worker_id}/pause"
    assert client.post(f"/api/supervisor/workers/{worker_id}/resume").json()["status"] == "RUNNING"
    assert client.post(f"/api/supervisor/workers/{worker_id}/terminate").json()["status"] == "TERMINATED"
    assert worker_id not in [w["worker_uuid"] for w in client.get("/api/workers").json()["workers"]]
    assert client.get(f"/api/workers/{worker_id}").json()["state"] == "TERMINATED"


def test_a_forbidden_transition_answers_as_seed_003_says(served: Api) -> None:
    client = served["operator"]
    worker_id = client.post("/api/workers", json={"workspace_id": "ws_test"}).json()["id"]
    answer = client.post(f"/api/supervisor/workers/{worker_id}/pause", json={"reason": "too early"})
    assert (answer.status_code, answer.headers["content-type"]) == (409, PROBLEM)
    body = answer.json()
    assert (body["worker_id"], body["from_state"], body["to_state"]) == (worker_id, "IDLE", "PAUSED")
    assert body["success"] is False and body["error"] == body["detail"] and body["timestamp"]
    assert (body["code"], body["title"]) == ("TK409", "invalid_transition")
    # and it is kept
    assert served.engine.rows(
        "select code, entity_uuid::text, detail ->> 'reason' as reason from tasker.rejected_transitions"
        " where entity_uuid = %s",
        worker_id,
    ) == [{"code": "TK409", "entity_uuid": worker_id, "reason": "too early"}]


def test_a_job_of_seed_003(served: Api) -> None:
    client = served["client"]
    client.post("/v1/templates", json={"template": {"name": "job", "steps": chain("a")}})
    job = client.post("/api/jobs", json={"name": "job"}).json()["task_uuid"]
    assert client.get(f"/api/jobs/{job}").json()["vocabulary"] == "supervision"
    assert client.post(f"/api/jobs/{job}/cancel").json() == {"id": job, "status": "CANCELED"}
    again = client.post(f"/api/jobs/{job}/cancel")
    assert (again.status_code, again.json()["task_uuid"], again.json()["from_state"]) == (409, job, "CANCELED")


def test_commands_on_tasks_and_steps(served: Api) -> None:
    client = served["operator"]
    task = new_task(served)
    step = step_of(served, task)
    assert client.post(f"/v1/workflow_steps/{step}/cancel", json=WHY).json() == {"state": "cancelled"}
    task = new_task(served)
    step = step_of(served, task)
    served.engine.move_step(UUID(step), "fail", error={"message": "no"})
    assert client.post(f"/v1/workflow_steps/{step}/retry", json=WHY).json()["state"] in ("pending", "enqueued")
    served.engine.move_step(UUID(step), "fail", error={"message": "no"})
    resolved = client.post(
        f"/v1/workflow_steps/{step}/resolve", json={**WHY, "result": {"n": 1}, "requested_by": "ada"}
    )
    assert resolved.json() == {"state": "resolved_manually"}
    found = client.get(f"/v1/workflow_steps/{step}").json()
    assert found["result"] == {"n": 1}
    said = client.get(f"/v1/tasks/{task}/transitions").json()["transitions"]
    assert "ada via the-operator" in [entry["requested_by"] for entry in said]
    assert client.post(f"/v1/tasks/{task}/cancel", json=WHY).json() == {"state": "cancelled"}
    resumed = client.post(f"/v1/tasks/{task}/resume", json=WHY)
    assert resumed.status_code == 201
    assert client.get(resumed.headers["location"]).json()["total_steps"] == 1
    names = {event["event"] for event in client.get(f"/v1/tasks/{task}/allowed_events").json()}
    assert names == {
        e["event"] for e in served.engine.rows("select event from tasker.allowed_events('task', %s)", task)
    }


def test_breakers(served: Api) -> None:
    client = served["operator"]
    assert client.get("/v1/breakers/curl").status_code == 404
    assert client.put("/v1/breakers/curl", json={"failure_threshold": 1, "vocabulary": "pipeline"}).json() == {
        "state": "CLOSED"
    }
    served.engine.one("select tasker.record_breaker_result('curl', false)")
    found = client.get("/v1/breakers/curl").json()
    assert (found["phase"], found["cooldown"]) == ("open", "PT1M")
    assert found in client.get("/v1/breakers").json()
    assert client.post("/v1/breakers/curl/reset", json=WHY).json() == {"state": "CLOSED"}


def test_limits(served: Api) -> None:
    client = served["operator"]
    key = client.put("/v1/limits/tool/curl", json={"concurrency": 2, "rate": 5, "per": 60}).json()["limit_uuid"]
    (found,) = client.get("/v1/limits").json()
    assert (found["limit_uuid"], found["scope"], found["name"], found["namespace"]) == (key, "tool", "curl", None)
    assert (found["concurrency"], found["rate"], found["per"], found["waiting"]) == (2, 5, "PT1M", 0)
    assert client.put("/v1/limits/tool/curl", json={"concurrency": 3}).json() == {"limit_uuid": key}
    assert (client.get("/v1/limits").json()[0]["concurrency"], client.get("/v1/limits").json()[0]["rate"]) == (3, None)
    assert client.put("/v1/limits/planet/mars", json={"concurrency": 3}).status_code == 400
    assert client.put("/v1/limits/tool/curl", json={}).status_code == 400
    assert client.put("/v1/limits/namespace/nowhere", json={"concurrency": 3}).status_code == 404
    assert served["auditor"].put("/v1/limits/tool/curl", json={"concurrency": 9}).status_code == 403
    assert client.delete("/v1/limits/tool/curl").status_code == 204
    assert client.delete("/v1/limits/tool/curl").status_code == 404
    assert client.get("/v1/limits").json() == []


def test_events(served: Api) -> None:
    client = served["operator"]
    flow = {
        "name": "flow",
        "namespace": "told",
        "steps": [{"name": "ship", "wait_for": {"event": "approved", "value": "7/a"}}],
    }
    task = client.post("/v1/tasks/graph", json={"graph": flow}).json()["task_uuid"]
    (step,) = client.get(f"/v1/tasks/{task}/workflow_steps").json()["steps"]
    assert step["waits_for"] == "event approved of 7/a"
    assert client.get("/v1/events/told/approved/7%2Fa").status_code == 404
    first = client.put("/v1/events/told/approved/7%2Fa", json={"payload": {"by": "anna"}, "requested_by": "anna"})
    assert first.status_code == 200 and first.json()["outcome"] == "emitted"
    assert first.json()["emitted_by"].startswith("anna via ")
    again = client.put("/v1/events/told/approved/7%2Fa", json={"payload": 1}).json()
    assert (again["outcome"], again["payload"]) == ("differs", {"by": "anna"})
    assert client.get("/v1/events/told/approved/7%2Fa").json()["payload"] == {"by": "anna"}
    (listed,) = client.get("/v1/events", params={"namespace": "told"}).json()
    assert (listed["event"], listed["key"]) == ("approved", "7/a")


def test_schedules_and_paused_namespaces(served: Api) -> None:
    client = served["operator"]
    client.post("/v1/templates", json={"template": {"name": "flow", "namespace": "clock", "steps": chain("a")}})
    first = client.put("/v1/schedules/clock/nightly", json={"cron": "30 2 * * *", "template": "flow", "priority": 2})
    assert first.status_code == 200, first.text
    (found,) = client.get("/v1/schedules", params={"namespace": "clock"}).json()
    assert (found["schedule"], found["next_due_at"]) == ("nightly", first.json()["next_due_at"])
    wrong = client.put("/v1/schedules/clock/nightly", json={"cron": "61 * * * *", "template": "flow"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "TK400")
    assert client.post("/v1/schedules/clock/nightly/pause", json=WHY).status_code == 200
    assert client.get("/v1/schedules", params={"namespace": "clock"}).json()[0]["next_due_at"] is None
    assert client.post("/v1/schedules/clock/nightly/resume", json=WHY).status_code == 200
    assert client.post("/v1/schedules/clock/nightly/remove", json=WHY).status_code == 200
    assert client.get("/v1/schedules", params={"namespace": "clock"}).json() == []

    assert client.post("/v1/namespaces/clock/pause", json=WHY).status_code == 200
    task = new_task(served, namespace="clock", start_at="2100-01-01T00:00:00Z")
    assert client.get(f"/v1/tasks/{task}").json()["started_at"] is None
    assert client.post("/v1/namespaces/clock/resume", json=WHY).status_code == 200
    assert client.post("/v1/namespaces/unknown/pause", json=WHY).json()["code"] == "TK404"


def test_lifecycles(served: Api) -> None:
    names = [lifecycle["lifecycle"] for lifecycle in served["monitor"].get("/v1/lifecycles").json()]
    assert "tasker.task" in names
    drawing = served["monitor"].get("/v1/lifecycles/tasker.task", params={"format": "dot"}).json()["drawing"]
    assert drawing.startswith("digraph")


def test_tasks_come_page_by_page(served: Api) -> None:
    made = [new_task(served, namespace="left" if place % 2 else "right") for place in range(7)]
    for where, expected in ({"namespace": "left"}, made[1::2]), ({"namespace": "right", "name": "flow"}, made[::2]):
        found: list[str] = []
        before = None
        while True:
            page = served["client"].get(
                "/v1/tasks", params={**where, "limit": 2, **({"before": before} if before else {})}
            )
            found += [task["task_uuid"] for task in page.json()["tasks"]]
            before = page.json()["next_before"]
            if before is None:
                break
        assert found == [str(task) for task in reversed(expected)]


def test_steps_and_changes_come_page_by_page(served: Api) -> None:
    task = new_task(served, *DIAMOND)
    names: list[str] = []
    after: int | None = 0
    while after is not None:
        page = served["client"].get(f"/v1/tasks/{task}/workflow_steps", params={"limit": 3, "after": after}).json()
        names += [step["name"] for step in page["steps"]]
        after = page["next_after"]
    assert names == [step["name"] for step in DIAMOND]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = served["client"].get("/v1/changes", params={"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        if not page["changes"]:
            break
        seen += [change["transition_uuid"] for change in page["changes"]]
        cursor = page["cursor"]
    written = served.engine.values(
        "select task_transition_uuid::text from tasker.task_transitions union all"
        " select workflow_step_transition_uuid::text from tasker.workflow_step_transitions"
    )
    assert len(seen) == len(set(seen)) and set(written) <= set(seen)


# -- repeated requests


@pytest.mark.parametrize("way", ["body", "header"])
def test_a_request_may_be_repeated(served: Api, way: str) -> None:
    body = {"graph": {"name": "flow", "steps": []}}
    sent: dict[str, Any] = {"json": {**body, "request_id": "once"}}
    if way == "header":
        sent = {"json": body, "headers": {"Idempotency-Key": "once"}}
    first, second = (served["client"].post("/v1/tasks/graph", **sent) for _ in range(2))
    assert first.json() == second.json()
    other = served["client"].post(
        "/v1/tasks/graph", json={"graph": {"name": "other", "steps": []}, "request_id": "once"}
    )
    assert (other.status_code, other.json()["code"]) == (409, "TK423")
    assert other.json()["from_state"] is None
    # another token is another caller
    assert served["operator"].post("/v1/tasks/graph", **sent).json() != first.json()


def test_two_different_keys_are_one_too_many(served: Api) -> None:
    answer = served["client"].post(
        "/v1/tasks/graph",
        json={"graph": {"name": "flow", "steps": []}, "request_id": "one"},
        headers={"Idempotency-Key": "two"},
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "TK400")


# -- refusals


def test_every_refusal_is_a_problem(served: Api) -> None:
    client, task = served["operator"], new_task(served)
    for answer, status, code in (
        (client.get(f"/v1/tasks/{uuid4()}"), 404, "TK404"),
        (client.get("/v1/tasks/nonsense"), 400, "TK400"),
        (client.get("/v1/nonsense"), 404, None),
        (client.delete("/v1/tasks"), 405, None),
        (client.post(f"/v1/tasks/{task}/cancel", json={}), 400, "TK400"),
        (client.post(f"/v1/tasks/{task}/cancel", json={**WHY, "more": 1}), 400, "TK400"),
        (client.post(f"/v1/tasks/{task}/cancel", content=b"{"), 400, "TK400"),
        (client.post(f"/v1/tasks/{task}/give_up", json=WHY), 409, "TK409"),
        (client.post("/v1/tasks", json={"name": "unknown"}), 404, "TK404"),
        (
            client.post(
                "/v1/templates", json={"template": {"name": "x", "steps": [{"name": "a", "depends_on": ["a"]}]}}
            ),
            400,
            "TK400",
        ),
        (client.post(f"/v1/workflow_steps/{uuid4()}/complete", json={"claim_uuid": str(uuid4())}), 404, "TK404"),
        (served["auditor"].post(f"/v1/tasks/{task}/cancel", json=WHY), 403, "42501"),
        (served["monitor"].get(f"/v1/tasks/{task}"), 403, "42501"),
    ):
        assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
        body = answer.json()
        assert (body["status"], body["code"]) == (status, code)
        assert body["detail"] and body["title"]
        assert answer.headers["cache-control"] == "no-store"


def test_statuses_are_those_of_the_catalogue(served: Api) -> None:
    served["operator"].get(f"/v1/tasks/{uuid4()}")
    assert {code: (kind.name, kind.status) for code, kind in problems.catalogue.items()} == {
        row["code"]: (row["name"], row["http_status"])
        for row in served.engine.rows("select code, name, http_status from tasker.error_catalogue")
    }


def test_text_that_postgres_can_not_hold_is_refused(served: Api) -> None:
    for graph in ({"name": "flow\x00", "steps": []}, {"name": "flow", "steps": [], "description": "\ud800"}):
        answer = served["client"].post("/v1/tasks/graph", content=json.dumps({"graph": graph}))
        assert answer.status_code == 400, answer.text


def test_a_request_that_is_too_large_is_refused(served: Api) -> None:
    body = {"graph": {"name": "flow", "steps": []}, "context": {"x": "y" * 2_000_000}}
    answer = served["client"].post("/v1/tasks/graph", json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (413, PROBLEM)

    def stream() -> Any:
        for _ in range(40):
            yield b" " * 100_000

    # whatever length it claims, or none
    assert served["client"].post("/v1/tasks/graph", content=stream()).status_code == 413


def test_an_error_that_nobody_foresaw_tells_nothing(database: str) -> None:
    with serving_api(database) as served:
        _break_and_ask(served)


def _break_and_ask(served: Api) -> None:
    served.engine.run("alter function tasker.task_status(uuid) rename to gone")
    task = new_task(served)
    answer = served["client"].get(f"/v1/tasks/{task}")
    assert answer.status_code == 503 and "task_status" not in answer.text
    served.engine.run(
        "create or replace function tasker.explain_task(p_task_uuid uuid) returns jsonb"
        " language plpgsql security definer set search_path = pg_catalog, pg_temp as"
        " $$ begin raise exception 'the password is hunter2'; end $$"
    )
    answer = served["client"].get(f"/v1/tasks/{task}/explanation")
    assert (answer.status_code, answer.headers["content-type"]) == (500, PROBLEM)
    assert "hunter2" not in answer.text and "Traceback" not in answer.text


# -- who calls


def test_without_a_known_token_nothing_is_answered(served: Api) -> None:
    for headers in {}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic Zm9vOmJhcg=="}:
        answer = httpx.get(f"{served.address}/v1/tasks", headers=headers)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert answer.headers["content-type"] == PROBLEM
    assert served["worker"].get("/v1/caller").json() == {
        "name": "the-worker", "role": "tasker_worker", "login": None, "expires_at": None,
    }  # fmt: skip


def test_the_file_of_tokens_is_read_again_when_it_changes(
    database: str, conn: psycopg.Connection[Any], serve: Serve, tmp_path: Path
) -> None:
    path = tmp_path / "tokens.toml"
    text, token = new_token("shop", "tasker_client")
    entry = f'[[token]]\nname = "shop"\nsha256 = "{token.sha256}"\nrole = "tasker_client"\n'
    path.write_text(entry)
    assert text not in entry
    address = serve(api.create_app(Gate(database, path)))
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {text}"}) as client:
        assert client.get("/v1/tasks").status_code == 200
        path.write_text(entry + "expires_at = 2020-01-01T00:00:00Z\n")
        assert client.get("/v1/tasks").status_code == 401
        path.write_text("")
        assert client.get("/v1/tasks").status_code == 401
        path.write_text("nonsense")
        assert client.get("/v1/tasks").status_code == 503


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("token = 1", "write one"),
        ('[[token]]\nname = "a b"\nsha256 = ""\nrole = "tasker_client"', "a name has"),
        ('[[token]]\nname = "a"\nsha256 = "abc"\nrole = "tasker_client"', "64 hexadecimal"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\nrole = "postgres"', "role is one of"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"', "it has name, sha256, role"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\nrole = "tasker_client"\nexpires_at = 2030-01-01T00:00:00', "time zone"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\nrole = "tasker_client"\nlogin = 1', "login is"),
        (2 * f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\nrole = "tasker_client"\n', "the same name"),
    ],
)  # fmt: skip
def test_a_file_of_tokens_that_is_wrong_says_where(tmp_path: Path, entry: str, says: str) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(entry)
    with pytest.raises(TokenFileError, match=says):
        read_tokens(path)


def test_a_token_of_a_bound_login_sees_its_namespaces_and_no_others(
    database: str, conn: psycopg.Connection[Any], login: Any, serve: Serve
) -> None:
    engine = Engine(conn)
    acme = conninfo_to_dict(login("tasker_client", "tasker_operator"))["user"]
    theirs, ours = engine.task(chain("a"), namespace="rival"), engine.task(chain("a"), namespace="acme")
    conn.execute("select tasker.bind_login(%s, '{acme}', 'test', 'somebody')", [acme])
    text, token = new_token("acme", "tasker_operator", str(acme))
    address = serve(api.create_app(Gate(database, [token])))
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {text}"}) as client:
        assert [task["task_uuid"] for task in client.get("/v1/tasks").json()["tasks"]] == [str(ours)]
        assert client.get(f"/v1/tasks/{theirs}").status_code == 404
        assert client.post(f"/v1/tasks/{theirs}/cancel", json=WHY).status_code == 404
        named = client.get("/v1/tasks", params={"namespace": "rival"})
        assert (named.status_code, named.json()["code"]) == (403, "TK403")
        assert client.post(f"/v1/tasks/{ours}/cancel", json=WHY).json() == {"state": "cancelled"}
    wrote = engine.rows(
        "select distinct login, acting_role, application_name from tasker.changes where login = %s", acme
    )
    assert wrote == [{"login": acme, "acting_role": "tasker_operator", "application_name": "pgtasker-api acme"}]
