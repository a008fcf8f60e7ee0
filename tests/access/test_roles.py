"""Who may do what: each role gets its work done with what it is granted, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.kernel.engine import DIAMOND, Engine, chain, refused

# bound_namespaces: policies ask it for whoever reads
RULES = {"lifecycle_diagram", "schema_version", "clock", "bound_namespaces"}
READING = {
    "task_status", "explain_task", "allowed_events", "task_state", "step_state", "get_step_readiness_status",
    "get_task_execution_context", "changes_after", "current_cursor", "export_transitions", "find_tasks", "task_revision",
    "step_spans", "allowed_commands", "load_result",
}  # fmt: skip
AUDIT = {"get_step_audit_history", "get_task_audit_history", "get_audit_by_worker", "get_audit_by_correlation_id"}
RETAINING = {"set_retention_policy", "archive_tasks", "purge_archive", "hold_task", "release_task"}
REPORTING = {
    "report_summary", "report_interventions", "report_actions_of", "report_worker", "report_correlation", "report_failures",
    "report_completeness", "report_population", "report_sample", "report_retention",
}  # fmt: skip
VERIFYING = REPORTING | {"verify_audit", "audit_digest", "verify_digest", "object_digests"}
# a command whose refusal is kept; it runs with the caller's rights
ATTEMPTING = {"attempt_command", "record_refusal"}
CREATING = {
    "register_template", "ensure_namespace", "create_task", "create_tasks", "submit_tasks", "create_task_from_graph", "cancel_task",
    "schedule_tasks", "cron_times", "command_all", "emit_event", "get_event",
}  # fmt: skip
WORKING = {
    "register_worker", "worker_heartbeat", "is_drained", "shutdown_worker", "claim_steps", "complete_step", "complete_steps", "fail_step", "report_and_claim",
    "extend_leases", "held_claims", "orchestrate", "tick", "register_processor", "processor_heartbeat", "transition_task",
    "transition_with_ownership", "worker_state", "report_validation", "save_checkpoint", "find_tasks",
    "emit_event", "get_event", "load_result",
    # around a call of a tool: may I, and how it went; what a breaker is made of stays with operators
    "breaker_allows", "breaker_permit", "breaker_state", "record_breaker_result",
}  # fmt: skip
OPERATING = {
    "give_up_task", "resolve_task", "reset_task", "cancel_step", "skip_step", "retry_step", "reset_step", "resolve_step",
    "transition_step", "define_vocabulary", "check_consistency", "find_stuck", "set_namespace_notifications", "set_payload_limits",
    "start_worker", "pause_worker", "resume_worker", "terminate_worker", "drain_worker", "configure_breaker", "reset_breaker", "pause_namespace", "resume_namespace", "pause_schedule", "resume_schedule", "remove_schedule", "backfill_schedule", "resume_task", "pass_validation", "fail_validation",
    "configure_tool", "set_limit", "remove_limit", "recover",
    "purge_expired",
    # diagnose runs as the caller, who sees the sessions that he may see; so its parts are open too
    "diagnose", "diagnose_schema", "diagnose_work", "diagnose_server", "refuse_bound_login",
}  # fmt: skip
# numbers without contents
METRICS = {
    "prometheus_metrics", "live_overview", "metrics_transition_counts", "metrics_time_in_state", "metrics_states",
    "metrics_rejections", "metrics_queues", "metrics_waits", "metrics_step_durations", "recent_throughput", "count_tasks",
}  # fmt: skip
MOVING = {
    "fire", "attached_state",
    # What the trigger calls that fills in a move. It runs as the caller, whose right to change the row it asks for by
    # locking it, so the caller needs these too. None gives a right: a guard's function runs as the caller, raising is
    # open to everybody, and the key is a column's default.
    "custom_guard_holds", "refuse_attached", "raise_error", "uuid_generate_v7",
}  # fmt: skip
ATTACHING = {
    "attach_lifecycle", "detach_lifecycle", "register_guard",
    # attach_lifecycle runs as the caller, who must own the table; these are its parts with the owner's rights, and the
    # triggers that it puts there, which whoever makes a trigger must be allowed to call
    "record_attachment", "record_detachment", "start_attached", "keep_attached_key",
}  # fmt: skip

_WORKERS = {"may_see_worker"}  # asked by the policy of the log of workers

CALLS = {
    "tasker_client": RULES | READING | CREATING | AUDIT | MOVING | ATTEMPTING,
    "tasker_worker": RULES | WORKING | MOVING | ATTEMPTING,
    "tasker_operator": RULES
    | READING
    | CREATING
    | WORKING
    | OPERATING
    | AUDIT
    | METRICS
    | MOVING
    | ATTACHING
    | ATTEMPTING
    | VERIFYING
    | _WORKERS
    | RETAINING
    | {"seal_audit"},
    # check_consistency: evidence that nothing is missing
    "tasker_auditor": RULES
    | READING
    | AUDIT
    | METRICS
    | VERIFYING
    | _WORKERS
    | ATTEMPTING
    | {"attached_state", "check_consistency"},
    "tasker_monitor": RULES | METRICS | _WORKERS | ATTEMPTING,
}

_CATALOGUE = {
    "error_catalogue", "lifecycles", "lifecycle_states", "lifecycle_events", "lifecycle_transitions", "lifecycle_phases",
    "engine_operations", "guards", "transition_actions", "vocabularies", "test_clock", "public_functions",
}  # fmt: skip
_WORK = {
    "task_overview", "step_overview", "timeline", "task_namespaces", "named_tasks", "named_steps", "tasks", "workflow_steps",
    "workflow_step_edges", "task_transitions", "workflow_step_transitions", "schedules", "events", "event_waits", "child_tasks", "unique_keys",
}  # fmt: skip
_DRIVE = {
    "workers", "worker_transitions", "worker_overview", "job_workers", "circuit_breakers", "circuit_breaker_transitions",
    "breaker_overview", "processors", "step_claims",
    "work_queues", "handler_waits", "timers", "rejected_transitions", "tools", "schema_info", "limits", "limit_slots", "limit_waits", "limit_overview",
}  # fmt: skip
_CONTENTS = {"step_checkpoints", "idempotency_keys"}  # partial results, stored answers
_EVIDENCE = {
    "workflow_step_result_audit", "audit_records", "rejected_transitions", "timeline", "task_transitions",
    "workflow_step_transitions", "worker_transitions", "circuit_breaker_transitions", "task_overview", "schema_info",
    "changes", "audit_events", "audit_seals", "audit_counts", "attached_transitions", "retention_policies", "legal_holds", "archived_tasks",
    "archived_rows", "purged_tasks", "step_payloads",
    "login_bindings", "login_binding_changes", "access_rights", "access_members", "access_warnings",
}  # fmt: skip
_METRICS = {
    "metrics_state_visits", "metrics_transition_counts", "metrics_time_in_state", "metrics_states", "metrics_rejections",
    "metrics_idempotency", "metrics_queues", "metrics_waits", "metrics_workers", "metrics_step_durations",
}  # fmt: skip
_ATTACHED = {"attached_lifecycles", "attached_transitions", "attached_overview"}
READS = {
    "tasker_client": _CATALOGUE | _WORK | _ATTACHED,
    # a worker whose connection broke looks for claims whose answer was lost
    "tasker_worker": _CATALOGUE | _ATTACHED | {"task_overview", "step_overview"},
    "tasker_operator": _CATALOGUE | _WORK | _DRIVE | _CONTENTS | _EVIDENCE | _METRICS | _ATTACHED,
    "tasker_auditor": _CATALOGUE | _EVIDENCE | _METRICS | _ATTACHED,
    "tasker_monitor": _CATALOGUE | _DRIVE | _METRICS,
}
# views read as whoever asks: of these tables a role reads the columns that its views show, and no others
READS_PARTLY = {
    "tasker_client": {"step_claims"},
    "tasker_worker": {
        "tasks",
        "task_transitions",
        "workflow_steps",
        "workflow_step_transitions",
        "step_claims",
        "event_waits",
        "child_tasks",
    },
    "tasker_operator": set(),
    "tasker_auditor": {"tasks", "workflow_steps", "workers", "step_claims", "idempotency_keys"},
    "tasker_monitor": {"idempotency_keys", "task_transitions", "workflow_step_transitions", "attached_transitions"},
}


@pytest.mark.parametrize("role", CALLS)
def test_a_role_may_call_what_it_is_for_and_nothing_else(rules: Engine, role: str) -> None:
    granted = set(
        rules.values(
            "select proname from pg_proc where pronamespace = 'tasker'::regnamespace"
            " and has_function_privilege(%s, oid, 'execute')",
            role,
        )
    )
    assert granted == CALLS[role]


@pytest.mark.parametrize("role", READS)
def test_a_role_reads_what_it_is_for_and_writes_nothing_but_moves(rules: Engine, role: str) -> None:
    rows = rules.rows(
        "select relname, has_any_column_privilege(%s, oid, 'select') as reads, has_table_privilege(%s, oid, 'select') as whole,"
        " has_any_column_privilege(%s, oid, 'insert') or has_any_column_privilege(%s, oid, 'update')"
        "  or has_table_privilege(%s, oid, 'delete') or has_table_privilege(%s, oid, 'truncate') as writes"
        " from pg_class where relnamespace = 'tasker'::regnamespace and relkind in ('r', 'v', 'p')",
        *[role] * 6,
    )
    moves = role in {"tasker_client", "tasker_worker", "tasker_operator"}
    assert {row["relname"] for row in rows if row["writes"]} == ({"attached_transitions"} if moves else set())
    assert {row["relname"] for row in rows if row["whole"]} == READS[role]
    assert {row["relname"] for row in rows if row["reads"] and not row["whole"]} == READS_PARTLY[role]


def test_of_a_table_that_is_read_partly_a_role_reads_what_its_views_show(rules: Engine) -> None:
    """Views read as whoever asks. Columns that no view of the role shows are closed, but for the four of a worker's claims."""
    rows = rules.rows(
        """
        with shown as (
          select distinct d.refobjid as relation, d.refobjsubid as attnum, v.oid as view
            from pg_rewrite w join pg_class v on v.oid = w.ev_class and v.relnamespace = 'tasker'::regnamespace
            join pg_depend d on d.objid = w.oid and d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass
                            and d.refobjid <> v.oid and d.refobjsubid > 0)
        select r.role, c.relname as relation, a.attname as column, has_column_privilege(r.role, c.oid, a.attnum, 'select') as may,
               exists (select from shown s where s.relation = c.oid and s.attnum = a.attnum
                          and has_table_privilege(r.role, s.view, 'select')) as is_shown
          from unnest(%s::text[]) as r(role) cross join pg_class c
          join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
         where c.relnamespace = 'tasker'::regnamespace and c.relkind = 'r' and not has_table_privilege(r.role, c.oid, 'select')
        """,
        list(CALLS),
    )
    differ = {(row["role"], row["relation"], row["column"]) for row in rows if row["may"] != row["is_shown"]}
    assert differ == {("tasker_worker", "workflow_steps", "lifecycle")}


@pytest.mark.parametrize("role", ["tasker_client", "tasker_worker", "tasker_operator"])
def test_of_a_move_only_its_name_may_be_written(rules: Engine, role: str) -> None:
    """move_attached fills in the rest of an entry; update, delete and truncate are for nobody."""
    (may,) = rules.rows(
        "select array_agg(attname::text order by attname)"
        "  filter (where has_column_privilege(%s, attrelid, attnum, 'insert')) as inserts,"
        " has_any_column_privilege(%s, attrelid, 'update') or has_table_privilege(%s, attrelid, 'delete')"
        "  or has_table_privilege(%s, attrelid, 'truncate') as changes"
        " from pg_attribute where attrelid = 'tasker.attached_transitions'::regclass and attnum > 0 and not attisdropped"
        " group by attrelid",
        *[role] * 4,
    )
    assert may == {"inserts": ["attached_table", "entity_key", "event", "metadata"], "changes": False}


def test_the_roles_are_groups_without_login_that_are_in_no_other(rules: Engine) -> None:
    rows = rules.rows(
        "select rolname, rolcanlogin, rolsuper, rolcreaterole, rolcreatedb, rolbypassrls, rolreplication from pg_roles"
        " where rolname like 'tasker%%'".replace("%%", "%")
    )
    assert {row.pop("rolname") for row in rows} == {*CALLS, "tasker_owner"}
    assert all(not any(row.values()) for row in rows)
    assert rules.values(
        "select m.member::regrole::text from pg_auth_members m where m.member::regrole::text like 'tasker%'"
    ) == []  # fmt: skip


def test_a_stranger_sees_nothing(login: Callable[..., str]) -> None:
    with psycopg.connect(login(), autocommit=True) as conn:
        stranger = Engine(conn)
        for statement in (
            "select * from tasker.error_catalogue",
            "select tasker.schema_version()",
            "select tasker.create_task('x')",
            "select * from pgmq.meta",
            "select pgmq.create('mine')",
        ):
            with refused("42501"):
                stranger.rows(statement)


@pytest.fixture
def people(as_role: Callable[[str], psycopg.Connection[Any]]) -> dict[str, Engine]:
    return {role.removeprefix("tasker_"): Engine(as_role(role)) for role in CALLS}


def test_least_privilege_works_from_end_to_end_in_a_namespace_made_later(people: dict[str, Engine]) -> None:
    """What is granted on objects that exist is often missing on those made later: queues, here."""
    client, worker, operator = people["client"], people["worker"], people["operator"]
    task = client.task([{**step, "max_attempts": 1} for step in DIAMOND], namespace="Later-Made.1")
    me = worker.worker()
    (top,) = worker.claim(me)
    worker.fail(top, "permanent")
    worker.orchestrate()
    assert client.state(task) == "blocked_by_failures"
    operator.command("retry_step", top["workflow_step_uuid"])
    worker.finish(me)
    assert client.one("select state from tasker.task_status(%s)", task) == "complete"
    assert worker.tick()["timers_fired"] == 0

    auditor = people["auditor"]
    history = auditor.rows("select * from tasker.get_task_audit_history(%s)", task)
    assert len(history) == 5
    assert auditor.rows("select * from tasker.get_audit_by_worker(%s)", me) == history
    assert auditor.rows("select * from tasker.audit_records where task_uuid = %s", task)
    assert auditor.rows("select * from tasker.timeline where task_uuid = %s", task)
    assert auditor.rows("select * from tasker.changes_after()")
    assert operator.findings() == []
    for person in people.values():
        assert person.one("select tasker.clock()")
        assert person.one("select tasker.lifecycle_diagram('tasker.task')")
    people["monitor"].rows("select * from tasker.workers")


def test_a_worker_does_not_command_tasks_through_the_generic_door(people: dict[str, Engine]) -> None:
    """transition_task is there for processors; manual actions stay with operators, and cancelling with clients."""
    task = people["client"].task(chain("only"))
    for event in ("cancel",):
        with refused("TK403") as refusal:
            people["worker"].move_task(task, event, reason="test", requested_by="somebody")
        assert refusal.detail == {"role": "tasker_worker", "operation": "cancel_task"}
    with refused("TK403"):
        people["worker"].one(
            "select tasker.transition_with_ownership(%s, 'steps_in_process', 'cancelled', null, %s)",
            task, '{"reason": "test", "requested_by": "somebody"}',
        )  # fmt: skip
    assert people["client"].state(task) == "steps_in_process"
    assert people["operator"].move_task(task, "cancel", reason="test", requested_by="somebody") == "cancelled"


def test_a_worker_may_drive_a_task_as_its_processor(people: dict[str, Engine]) -> None:
    task = people["client"].task(chain("only"), start=False)
    processor = people["worker"].processor()
    assert people["worker"].move_task(task, "start", processor) == "initializing"
    assert people["worker"].move_task(task, "ready_steps_found", processor) == "enqueuing_steps"


def test_a_real_login_gets_the_rights_of_its_group_and_is_on_record(engine: Engine, login: Callable[..., str]) -> None:
    """The refusal names the login, whatever role it acts as."""
    with (
        psycopg.connect(login("tasker_worker"), autocommit=True, application_name="night shift") as conn,
    ):
        worker = Engine(conn)
        name = conn.info.user
        task = engine.task(chain("only"))
        (claimed,) = worker.claim(worker.worker())
        worker.run("set role tasker_worker")
        report = {"step_uuid": claimed["workflow_step_uuid"], "claim_uuid": "01890000-0000-7000-8000-000000000000"}
        assert worker.report(report)[0]["code"] == "TK412"
        with refused("42501"):
            worker.run("insert into tasker.workers (name, vocabulary) values ('x', 'tasker')")
        with refused("42501"):
            worker.rows("select * from tasker.get_task_audit_history(%s)", task)
    (row,) = engine.rows("select * from tasker.rejected_transitions")
    assert (row["login"], row["application_name"], row["code"]) == (name, "night shift", "TK412")


@pytest.mark.parametrize(
    "function",
    [
        "append_step_transitions",
        "append_task_transitions",
        "apply_reports",
        "move_worker",
        "move_breaker",
        "end_attached",
    ],
)
def test_the_inner_functions_are_for_nobody(rules: Engine, function: str) -> None:
    holders = rules.values(
        "select r.rolname from pg_roles r cross join pg_proc p where p.proname = %s"
        " and p.pronamespace = 'tasker'::regnamespace and has_function_privilege(r.oid, p.oid, 'execute')"
        " and not r.rolsuper",
        function,
    )
    assert holders == ["tasker_owner"]


def test_names_in_public_do_not_shadow_anything(engine: Engine, login: Callable[..., str]) -> None:
    """Even where everybody may create in public, as in databases that are older than PostgreSQL 15."""
    engine.run("grant create on schema public to public")
    with psycopg.connect(login("tasker_client", "tasker_worker"), autocommit=True) as conn:
        attacker = Engine(conn)
        attacker.run("create table public.workflow_steps (hijacked text)")
        attacker.run("create function public.jsonb_array_length(jsonb) returns int language sql as 'select 0'")
        attacker.run("create function public.hijack(uuid, uuid) returns boolean language sql as 'select true'")
        attacker.run("create operator public.= (leftarg = uuid, rightarg = uuid, function = public.hijack)")
        attacker.run("set search_path = public, pg_catalog")
        task = attacker.task(DIAMOND)
        other = attacker.task(DIAMOND)
        worker = attacker.worker()
        (claimed, _) = attacker.claim(worker)
        attacker.complete(claimed)
        attacker.orchestrate()
    assert {engine.states(task)["top"], engine.states(other)["top"]} == {"complete", "in_progress"}
    engine.assert_consistent()
