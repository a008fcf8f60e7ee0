"""A database with two tenants, and every way in which a login of one could reach for what is the other's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.kernel.engine import Engine, Row, chain

MARK = "only-rival-may-read-this"
ROLES = ("tasker_client", "tasker_worker", "tasker_operator", "tasker_auditor", "tasker_monitor")
LONG_AGO = "'1 year'::interval"


@dataclass(frozen=True)
class Attempt:
    """A statement of a login that is bound elsewhere; `%(name)s` stand for keys of the world.

    `codes`: the SQLSTATEs with which it is refused; none: it is answered, with `answer`.
    `writes`: tables in which it leaves a trace of its own.
    """

    statement: str
    codes: tuple[str, ...] = ()
    answer: Any = None
    writes: frozenset[str] = field(default_factory=frozenset)


def hidden(statement: str) -> Attempt:
    """As if there were no such thing."""
    return Attempt(statement, ("TK404",))


def refused_to(statement: str) -> Attempt:
    """The login is told that it may not."""
    return Attempt(statement, ("TK403",))


def nothing(statement: str) -> Attempt:
    """No rows."""
    return Attempt(statement, answer=[])


def answers(statement: str, value: Any, *writes: str) -> Attempt:
    """One row with one value."""
    return Attempt(statement, answer=[value], writes=frozenset(writes))


_BY = "p_reason => 'test', p_requested_by => 'somebody'"

ATTEMPTS: dict[str, list[Attempt]] = {
    # tasks
    "cancel_task": [hidden(f"select tasker.cancel_task(%(task)s, {_BY})")],
    "give_up_task": [hidden(f"select tasker.give_up_task(%(blocked)s, {_BY})")],
    "resolve_task": [hidden(f"select tasker.resolve_task(%(blocked)s, {_BY})")],
    "reset_task": [hidden(f"select tasker.reset_task(%(failed)s, {_BY})")],
    "pass_validation": [hidden(f"select tasker.pass_validation(%(judged)s, {_BY})")],
    "fail_validation": [hidden(f"select tasker.fail_validation(%(judged)s, {_BY})")],
    "resume_task": [hidden(f"select tasker.resume_task(%(failed)s, {_BY})")],
    "transition_task": [
        hidden("select tasker.transition_task(%(unstarted)s, 'start')"),
        hidden("select tasker.transition_task(%(own_unstarted)s, 'start', %(processor)s)"),
    ],
    "transition_with_ownership": [
        hidden("select tasker.transition_with_ownership(%(unstarted)s, 'pending', 'initializing', null)"),
    ],
    "task_status": [hidden("select * from tasker.task_status(%(task)s)")],
    "task_state": [answers("select tasker.task_state(%(task)s)", None)],
    "explain_task": [hidden("select tasker.explain_task(%(task)s)")],
    "get_task_execution_context": [nothing("select * from tasker.get_task_execution_context(%(task)s)")],
    "get_step_readiness_status": [nothing("select * from tasker.get_step_readiness_status(%(task)s)")],
    "allowed_events": [
        nothing("select * from tasker.allowed_events('task', %(task)s)"),
        nothing("select * from tasker.allowed_events('step', %(step)s)"),
    ],
    # steps
    "cancel_step": [hidden(f"select tasker.cancel_step(%(step)s, {_BY})")],
    "skip_step": [hidden(f"select tasker.skip_step(%(skippable)s, {_BY})")],
    "retry_step": [hidden(f"select tasker.retry_step(%(blocked_step)s, {_BY})")],
    "reset_step": [hidden(f"select tasker.reset_step(%(blocked_step)s, {_BY})")],
    "resolve_step": [hidden(f"select tasker.resolve_step(%(step)s, {_BY})")],
    "transition_step": [hidden("""select tasker.transition_step(%(step)s, 'cancel', '{"reason": "x", "requested_by": "y"}')""")],
    "step_state": [answers("select tasker.step_state(%(step)s)", None)],
    # with the very claim of the other tenant's worker
    "complete_step": [hidden("select tasker.complete_step(%(step)s, %(claim)s, '1')")],
    "fail_step": [hidden("select tasker.fail_step(%(step)s, %(claim)s, '{}')")],
    "complete_steps": [
        answers(
            "select code from tasker.complete_steps("
            " jsonb_build_array(jsonb_build_object('step_uuid', %(step)s::uuid, 'claim_uuid', %(claim)s::uuid)))",
            "TK404",
            "rejected_transitions", "changes",
        ),
    ],
    "report_validation": [hidden("select tasker.report_validation(%(validating_step)s, %(validating_claim)s, true)")],
    "load_result": [hidden("select tasker.load_result(%(step)s, %(claim)s)"),
                    hidden("select tasker.load_result(%(payload)s)")],
    "save_checkpoint": [hidden("select tasker.save_checkpoint(%(step)s, %(claim)s, '1')")],
    # workers and processors
    "report_and_claim": [
        hidden("select * from tasker.report_and_claim(%(worker)s, '[]', null, 1)"),
        answers(
            "select (outcome).code from tasker.report_and_claim(%(own_worker)s,"
            " jsonb_build_array(jsonb_build_object('step_uuid', %(step)s::uuid, 'claim_uuid', %(claim)s::uuid)), array['rival'], 5)",
            "TK404",
            "rejected_transitions", "changes",
        ),
    ],
    "claim_steps": [
        hidden("select * from tasker.claim_steps(%(worker)s)"),
        nothing("select * from tasker.claim_steps(%(own_worker)s, array['rival'])"),
    ],
    "register_worker": [refused_to("select tasker.register_worker('w', p_namespaces => array['rival'])")],
    "worker_heartbeat": [hidden("select tasker.worker_heartbeat(%(worker)s)")],
    "worker_state": [answers("select tasker.worker_state(%(worker)s)", None)],
    "may_see_worker": [answers("select tasker.may_see_worker(%(worker)s)", False)],
    "extend_leases": [answers("select tasker.extend_leases(%(worker)s)", 0)],
    "held_claims": [nothing("select tasker.held_claims(%(worker)s)")],
    "shutdown_worker": [hidden("select tasker.shutdown_worker(%(worker)s)")],
    "start_worker": [hidden(f"select tasker.start_worker(%(supervised)s, {_BY})")],
    "pause_worker": [hidden(f"select tasker.pause_worker(%(started)s, {_BY})")],
    "resume_worker": [hidden(f"select tasker.resume_worker(%(paused)s, {_BY})")],
    "drain_worker": [hidden(f"select tasker.drain_worker(%(worker)s, {_BY})")],
    "is_drained": [hidden("select tasker.is_drained(%(worker)s)")],
    "terminate_worker": [hidden(f"select tasker.terminate_worker(%(started)s, {_BY})")],
    "processor_heartbeat": [hidden("select tasker.processor_heartbeat(%(processor)s)")],
    # what runs by itself
    "orchestrate": [
        answers("select (tasker.orchestrate()).messages", 0),
        hidden("select (tasker.orchestrate(%(processor)s)).messages"),
    ],
    "tick": [Attempt("select timers_fired, leases_expired, steps_enqueued, tasks_moved, next_due_at from tasker.tick()",
                     answer=[(0, 0, 0, 0, None)])],
    "recover": [nothing(f"select * from tasker.recover(false, {_BY})")],
    "check_consistency": [nothing("select * from tasker.check_consistency()"),
                          nothing("select * from tasker.check_consistency(%(lost)s)")],
    "diagnose": [refused_to("select tasker.diagnose()")],
    "diagnose_work": [refused_to("select tasker.diagnose_work()")],
    "refuse_bound_login": [refused_to("select tasker.refuse_bound_login('it is tried')")],
    "find_stuck": [nothing("select * from tasker.find_stuck('0 seconds') where task_uuid <> %(own_unstarted)s")],
    "purge_expired": [answers("select tasker.purge_expired()", 0)],
    # namespaces, templates, creation
    "ensure_namespace": [refused_to("select tasker.ensure_namespace('rival', 'mine now')"),
                         refused_to("select tasker.ensure_namespace('new')")],
    "set_namespace_notifications": [refused_to("select tasker.set_namespace_notifications('rival', 'all')")],
    "set_payload_limits": [refused_to("select tasker.set_payload_limits('rival', 4096)")],
    "register_template": [
        refused_to("""select tasker.register_template('{"name": "x", "namespace": "rival", "steps": []}')"""),
        refused_to("select tasker.register_template('{\"name\": \"x\", \"namespace\": \"acme\","
                   " \"steps\": [{\"name\": \"s\", \"workflow\": {\"name\": \"flow\", \"namespace\": \"rival\"}}]}')"),
    ],
    "create_task": [
        refused_to("select tasker.create_task('flow', p_namespace => 'rival')"),
        hidden("select tasker.create_task('flow', p_namespace => 'acme', p_parent_task_uuid => %(task)s)"),
    ],
    "create_tasks": [
        refused_to("""select tasker.create_tasks('[{"name": "flow", "namespace": "acme"}, {"name": "flow", "namespace": "rival"}]')"""),
    ],
    "submit_tasks": [
        refused_to("""select tasker.submit_tasks('[{"name": "flow", "namespace": "rival", "unique_key": "k"}]')"""),
    ],
    "create_task_from_graph": [
        refused_to("""select tasker.create_task_from_graph('{"name": "x", "steps": []}', p_namespace => 'rival')"""),
        refused_to("""select tasker.create_task_from_graph('{"name": "x", "namespace": "rival", "steps": []}', p_namespace => null)"""),
        refused_to("select tasker.create_task_from_graph('{\"name\": \"x\", \"steps\": [{\"name\": \"s\","
                   " \"workflow\": {\"name\": \"flow\", \"namespace\": \"rival\"}}]}', p_namespace => 'acme')"),
        hidden("""select tasker.create_task_from_graph('{"name": "x", "steps": []}', p_namespace => 'acme',"""
               " p_parent_task_uuid => %(task)s)"),
    ],
    # evidence, feeds, numbers
    "changes_after": [nothing("select * from tasker.changes_after(%(own_cursor)s)")],
    "export_transitions": [
        nothing("select * from tasker.export_transitions(%(own_until)s)"),
        nothing("select * from tasker.export_transitions(p_namespace => 'rival')"),
    ],
    "get_audit_by_correlation_id": [nothing("select * from tasker.get_audit_by_correlation_id(%(correlation)s)")],
    "get_audit_by_worker": [nothing("select * from tasker.get_audit_by_worker(%(worker)s)")],
    "get_step_audit_history": [nothing("select * from tasker.get_step_audit_history(%(failed)s, %(failed_step)s)")],
    "get_task_audit_history": [nothing("select * from tasker.get_task_audit_history(%(failed)s)")],
    "find_tasks": [
        refused_to("select * from tasker.find_tasks('rival')"),
        nothing("select task from tasker.find_tasks(p_phase => 'failed') f, unnest(f.task_uuids) as task"),
    ],
    "allowed_commands": [
        nothing("select * from tasker.allowed_commands('task', %(task)s::text)"),
        nothing("select * from tasker.allowed_commands('step', %(step)s::text)"),
        nothing("select * from tasker.allowed_commands('worker', %(started)s::text)"),
        nothing("select * from tasker.allowed_commands('circuit_breaker', 'open-tool')"),
    ],
    "task_revision": [answers("select tasker.task_revision(%(task)s)", None)],
    "step_spans": [nothing("select * from tasker.step_spans(%(task)s)")],
    "count_tasks": [
        refused_to("select * from tasker.count_tasks('rival')"),
        nothing("select * from tasker.count_tasks() where namespace is distinct from 'acme'"),
    ],
    "recent_throughput": [
        refused_to("select * from tasker.recent_throughput(30, 'rival')"),
        nothing("select * from tasker.recent_throughput() where succeeded + failed > 0"),
    ],
    "metrics_queues": [nothing("select * from tasker.metrics_queues() where namespace is distinct from 'acme'")],
    "metrics_waits": [nothing("select * from tasker.metrics_waits() where namespace is distinct from 'acme'")],
    "metrics_rejections": [nothing("select * from tasker.metrics_rejections('-infinity')")],
    "metrics_states": [nothing("select * from tasker.metrics_states(%(own_until)s) where visits > 0")],
    "metrics_step_durations": [nothing("select * from tasker.metrics_step_durations('-infinity')")],
    "metrics_time_in_state": [nothing("select * from tasker.metrics_time_in_state(%(own_until)s)")],
    "metrics_transition_counts": [nothing("select * from tasker.metrics_transition_counts(%(own_until)s)")],
    "live_overview": [refused_to("select tasker.live_overview()")],
    "prometheus_metrics": [refused_to("select tasker.prometheus_metrics()")],
    # a refusal is kept, with nothing of the task in it
    "attempt_command": [
        answers(f"select code from tasker.attempt_command('cancel_task', %(task)s::text, {_BY})", "TK404",
                "rejected_transitions", "changes"),
    ],
    "hold_task": [hidden(f"select tasker.hold_task(%(failed)s, {_BY})")],
    "release_task": [hidden(f"select tasker.release_task(%(failed)s, {_BY})")],
    "set_retention_policy": [refused_to("select tasker.set_retention_policy('p', '1 day', '1 year', 'x')")],
    "archive_tasks": [refused_to("select * from tasker.archive_tasks('kept', 'somebody')")],
    "purge_archive": [refused_to("select * from tasker.purge_archive('kept', 'somebody')")],
    # over all namespaces
    "report_summary": [refused_to("select tasker.report_summary('-infinity', 'infinity')")],
    "report_interventions": [refused_to("select tasker.report_interventions('-infinity', 'infinity')")],
    "report_actions_of": [refused_to("select tasker.report_actions_of('somebody', '-infinity', 'infinity')")],
    "report_worker": [refused_to("select tasker.report_worker(%(worker)s, '-infinity', 'infinity')")],
    "report_correlation": [refused_to("select tasker.report_correlation(%(correlation)s)")],
    "report_failures": [refused_to("select tasker.report_failures('-infinity', 'infinity')")],
    "report_completeness": [refused_to("select tasker.report_completeness('-infinity', 'infinity')")],
    "report_population": [refused_to("select tasker.report_population('tasks', '-infinity', 'infinity')")],
    "report_sample": [refused_to("select tasker.report_sample('tasks', '-infinity', 'infinity', 1, 'seed')")],
    "report_retention": [refused_to("select tasker.report_retention('-infinity', 'infinity')")],
    "seal_audit": [refused_to("select tasker.seal_audit()")],
    "verify_audit": [refused_to("select tasker.verify_audit()")],
    "audit_digest": [refused_to("select tasker.audit_digest()")],
    "verify_digest": [refused_to("select tasker.verify_digest('{\"seal\": 1, \"digest\": \"' || repeat('0', 64) || '\"}')")],
    # shared by all
    "breaker_allows": [refused_to("select tasker.breaker_allows('rival-tool')")],
    "breaker_permit": [refused_to("select tasker.breaker_permit('rival-tool')")],
    "breaker_state": [answers("select tasker.breaker_state('rival-tool')", None)],
    "configure_breaker": [refused_to("select tasker.configure_breaker('rival-tool', 1)")],
    "record_breaker_result": [refused_to("select tasker.record_breaker_result('rival-tool', false)")],
    "pause_namespace": [hidden(f"select tasker.pause_namespace('rival', {_BY})")],
    "resume_namespace": [hidden(f"select tasker.resume_namespace('rival', {_BY})")],
    "command_all": [
        nothing(f"""select task_uuid from tasker.command_all('cancel_task', '{{"namespace": "rival"}}', {_BY}, p_dry_run => false)"""),
    ],
    "schedule_tasks": [refused_to("select tasker.schedule_tasks('nightly', '@daily', 'flow', p_namespace => 'rival')")],
    "emit_event": [
        refused_to("select * from tasker.emit_event('approved', 'rival', p_namespace => 'rival')"),
        # the same event in the own namespace is another one
        answers("select outcome from tasker.emit_event('told', 'secret', p_namespace => 'acme')", "emitted", "events", "audit_events", "changes", "q_orchestration_step_results"),
    ],
    "get_event": [
        refused_to("select * from tasker.get_event('told', 'secret', 'rival')"),
    ],
    "pause_schedule": [hidden(f"select tasker.pause_schedule('nightly', {_BY}, p_namespace => 'rival')")],
    "resume_schedule": [hidden(f"select tasker.resume_schedule('nightly', {_BY}, p_namespace => 'rival')")],
    "remove_schedule": [hidden(f"select tasker.remove_schedule('nightly', {_BY}, p_namespace => 'rival')")],
    "backfill_schedule": [
        hidden("select tasker.backfill_schedule('nightly', pg_catalog.clock_timestamp() - '2 days'::pg_catalog.interval,"
               f" pg_catalog.clock_timestamp(), {_BY}, p_namespace => 'rival', p_dry_run => false)"),
    ],
    "configure_tool": [refused_to("select tasker.configure_tool('rival-tool', '1 second')")],
    "set_limit": [
        refused_to("select tasker.set_limit('tool', 'rival-tool', 1)"),
        refused_to("select tasker.set_limit('tool', 'rival-tool', 1, p_namespace => 'rival')"),
        refused_to("select tasker.set_limit('template', 'flow', 1, p_namespace => 'rival')"),
        # not even for oneself: what one may take of what all share
        refused_to("select tasker.set_limit('namespace', 'acme', 1)"),
    ],
    "remove_limit": [
        refused_to("select tasker.remove_limit('tool', 'rival-tool')"),
        refused_to("select tasker.remove_limit('template', 'flow', 'rival')"),
    ],
    "reset_breaker": [refused_to(f"select tasker.reset_breaker('open-tool', {_BY})")],
    "define_vocabulary": [
        refused_to("""select tasker.define_vocabulary(v.definition || '{"description": "mine"}')"""
                   " from tasker.vocabularies v where v.vocabulary = 'pipeline'"),
    ],
    "register_guard": [refused_to("select tasker.register_guard('mine', 'public.fine(text)', 'it is fine')")],
    # rows of one's own tables, whose lifecycle stands in the other namespace
    "attach_lifecycle": [refused_to("select tasker.attach_lifecycle('public.own_things', 'thing', 'thing.thing', 'rival')")],
    "detach_lifecycle": [hidden("select tasker.detach_lifecycle('public.rival_things')")],
    "fire": [hidden("select tasker.fire('public.rival_things', '1', 'finish')")],
    "attached_state": [answers("select tasker.attached_state('public.rival_things', '1')", None)],
}  # fmt: skip

NOT_TRIED = {
    "bound_namespaces": "says what the login itself is bound to",
    "clock": "the time",
    "cron_times": "the time, by an expression",
    "current_cursor": "a place in the feed, without what stands there",
    "diagnose_schema": "what the catalogue tells everybody",
    "diagnose_server": "what the catalogue and the statistics tell everybody",
    "custom_guard_holds": "calls a function of the caller's as the caller",
    "keep_attached_key": "a trigger function: only refuses",
    "lifecycle_diagram": "rules are no secret",
    "object_digests": "digests of definitions, which the catalogue tells everybody",
    "raise_error": "raises what it is told",
    "record_attachment": "a part of attach_lifecycle, which is tried: asks whether the triggers are there",
    "record_detachment": "a part of detach_lifecycle, which is tried: asks whether the triggers are gone",
    "record_refusal": "a part of attempt_command, which is tried: keeps the key that it is told",
    "refuse_attached": "raises what it is told",
    "register_processor": "makes something of the login's own",
    "schema_version": "the same for all",
    "start_attached": "a trigger function: the log of who may insert into the table",
    "uuid_generate_v7": "a new key",
}

SHARED_RELATIONS = {
    "error_catalogue", "lifecycles", "lifecycle_states", "lifecycle_events", "lifecycle_transitions", "lifecycle_phases",
    "engine_operations", "guards", "transition_actions", "vocabularies",  # rules are no secret
    "public_functions",  # what the catalogue tells everybody
    "test_clock", "schema_info",  # the time, what is installed
    "access_rights", "access_members", "access_warnings",  # what the catalogue tells everybody
    "metrics_states",  # one row for each state of the rules; metrics_states() is tried
}  # fmt: skip

THINGS: Row = {
    "vocabulary": "thing",
    "description": "things that are finished",
    "lifecycles": [
        {
            "lifecycle": "thing.thing",
            "kind": "custom",
            "description": "a thing",
            "initial_state": "new",
            "states": [
                {"state": "new", "phase": "pending", "description": "new"},
                {"state": "done", "phase": "succeeded", "flags": ["is_terminal"], "description": "done"},
            ],
            "events": [{"event": "finish", "category": "lifecycle", "description": "finished"}],
            "transitions": [
                {"from": "new", "event": "finish", "to": "done", "fired_by": "command", "description": "it is done"}
            ],
        }
    ],
}


@dataclass
class World:
    """Two tenants, acme and rival; `keys` are those of what is rival's, or acme's where they begin with own."""

    root: Engine
    acme: Engine
    keys: dict[str, Any]

    def fingerprint(self) -> dict[str, str]:
        """A digest of every table of the engine and its queues."""
        tables = self.root.rows(
            "select c.oid::regclass::text as name, c.relname from pg_class c where c.relkind = 'r'"
            " and c.relnamespace in ('tasker'::regnamespace, 'pgmq'::regnamespace) order by 1"
        )
        query = " union all ".join(
            f"select '{table['relname']}' as name, md5(coalesce(string_agg(t::text, '' order by t::text), '')) as digest"
            f" from {table['name']} t"
            for table in tables
        )
        return {row["name"]: row["digest"] for row in self.root.rows(query)}

    def foreign(self) -> set[str]:
        """Every uuid in which something of rival's is known, and the mark that stands in its contents."""
        uuids = self.root.values(
            """
            select x.key::text from (
              select task_uuid from tasker.tasks where namespace <> 'acme' union
              select correlation_id from tasker.tasks where namespace <> 'acme' union
              select workflow_step_uuid from tasker.workflow_steps where namespace <> 'acme' union
              select claim_uuid from tasker.step_claims where namespace <> 'acme' union
              select worker_uuid from tasker.workers where namespaces is distinct from '{acme}' union
              select processor_uuid from tasker.processors where namespaces is distinct from '{acme}' union
              select named_task_uuid from tasker.named_tasks where namespace <> 'acme' union
              select circuit_breaker_uuid from tasker.circuit_breakers union
              select attachment_uuid from tasker.attached_lifecycles where namespace <> 'acme') as x(key)
            """
        )
        return {MARK, *uuids}


def bound_login(root: Engine, dsn: str, name: str, *namespaces: str, roles: tuple[str, ...] = ROLES) -> str:
    """Make a login that is a member of these roles and bound to these namespaces; its connection string."""
    root.run(sql.SQL("create role {} login").format(sql.Identifier(name)).as_string(root.conn))
    for role in roles:
        root.run(f"grant {role} to {name}")
    root.one("select tasker.bind_login(%s, %s, 'test', 'somebody')", name, list(namespaces))
    return make_conninfo(dsn, user=name)


def _failing(root: Engine, worker: UUID, category: str, **fields: Any) -> tuple[UUID, UUID]:
    task = root.task(chain("work", "after", max_attempts=2), namespace="rival", **fields)
    (claimed,) = root.claim(worker, namespace="rival")
    root.one(
        "select tasker.fail_step(%s, %s, %s, %s)",
        claimed["workflow_step_uuid"], claimed["claim_uuid"], json.dumps({"message": MARK}), category,
    )  # fmt: skip
    root.orchestrate()
    return task, claimed["workflow_step_uuid"]


def build(root: Engine, acme_dsn: str, conn: psycopg.Connection[Any]) -> World:
    """Fill the database with one of everything that is rival's, in every state that something could be done to."""
    acme = Engine(conn, "acme")
    acme_login = conn.info.user
    keys: dict[str, Any] = {}

    # what is acme's own, and quiet: nothing of it is due
    keys["own_worker"] = acme.worker()
    keys["own_unstarted"] = acme.task(chain("work"), start=False)
    acme.one("select tasker.register_template(%s)", json.dumps({"name": "flow", "namespace": "acme", "steps": []}))
    keys["own_until"] = root.one("select clock_timestamp()")

    root.one("select tasker.bind_login('tasker_monitor', '{rival}', 'test', 'somebody')")  # any role but acme's
    root.run("create table public.rival_things (thing int primary key)")
    root.run("create table public.own_things (thing int primary key)")
    root.run("create function public.fine(text) returns boolean language sql return true")
    root.one("select tasker.define_vocabulary(%s)", json.dumps(THINGS))
    root.run("select tasker.set_retention_policy('kept', '1 day', '1 year', 'x')")
    root.one("select tasker.attach_lifecycle('public.rival_things', 'thing', 'thing.thing', 'rival')")
    root.run("insert into public.rival_things values (1)")
    root.run(f"alter table public.rival_things owner to {acme_login}")
    root.run(f"alter table public.own_things owner to {acme_login}")
    root.run(f"grant create on schema public to {acme_login}")

    worker = root.one(
        "select tasker.register_worker(%s, p_namespaces => array['rival'], p_heartbeat_interval => '1 year')", MARK
    )
    keys["worker"] = worker
    keys["processor"] = root.processor(MARK)
    for name in ("supervised", "started", "paused"):
        keys[name] = root.one(
            "select tasker.register_worker(%s, p_vocabulary => 'supervision', p_namespaces => array['rival'],"
            " p_heartbeat_interval => '1 year')",
            name,
        )
        if name != "supervised":
            root.command("start_worker", keys[name])
    root.command("pause_worker", keys["paused"])
    root.one(
        "select tasker.register_template(%s)",
        json.dumps({"name": "flow", "namespace": "rival", "description": MARK, "steps": [{"name": "a"}]}),
    )
    root.one("select tasker.schedule_tasks('nightly', '@daily', 'flow', %s, 'rival')", json.dumps({"secret": MARK}))
    root.one(
        "select tasker.emit_event('told', 'secret', %s, 'rival', p_keep => '1 hour')", json.dumps({"secret": MARK})
    )
    root.task([{"name": "hears", "wait_for": {"event": "awaited", "value": "secret"}}], namespace="rival")
    # its time has come; a tick of somebody else is not to create its task
    root.run("update tasker.schedules set next_due_at = date_trunc('day', next_due_at) - interval '1 day'")
    root.one("select tasker.configure_breaker('rival-tool')")
    root.one("select tasker.configure_tool('rival-tool', '1 hour')")
    root.one("select tasker.set_limit('tool', 'rival-tool', 5)")
    root.one("select tasker.set_limit('template', 'flow', 5, p_namespace => 'rival')")
    root.one("select tasker.configure_breaker('open-tool', 1)")
    root.one("select tasker.record_breaker_result('open-tool', false)")

    keys["failed"], keys["failed_step"] = _failing(root, worker, "permanent")
    root.command("give_up_task", keys["failed"])
    keys["correlation"] = root.one("select correlation_id from tasker.tasks where task_uuid = %s", keys["failed"])
    keys["blocked"], keys["blocked_step"] = _failing(root, worker, "permanent")
    _failing(root, worker, "transient")  # its retry is due
    # a result that stands apart from the log
    root.task(chain("big"), namespace="rival")
    (big,) = root.claim(worker, namespace="rival")
    root.complete(big, {"secret": MARK, "rest": "x" * 100_000})
    root.orchestrate()
    keys["payload"] = root.one("select payload_uuid from tasker.step_payloads")
    # held, with a lease that has ended
    keys["task"] = root.one(
        "select tasker.create_task_from_graph(%s, %s, 'rival', p_request_id => 'rival-1')",
        json.dumps({"name": "test", "steps": chain("work", "after", tool="rival-tool")}), json.dumps({"secret": MARK}),
    )  # fmt: skip
    (held,) = root.claim(worker, namespace="rival", lease="10 seconds")
    keys["step"], keys["claim"] = held["workflow_step_uuid"], held["claim_uuid"]
    root.one("select tasker.save_checkpoint(%s, %s, %s)", keys["step"], keys["claim"], json.dumps(MARK))
    root.report({"step_uuid": keys["step"], "claim_uuid": keys["task"]})  # a refusal on record
    keys["judged"] = root.one(
        "select tasker.create_task_from_graph(%s, '{}', 'rival')",
        json.dumps({"name": "judged", "steps": [], "vocabulary": "orchestration", "final_validation": True}),
    )
    # waits for its acceptance checks
    root.task([{"name": "checked", "acceptance": [{"type": "custom"}]}], namespace="rival", vocabulary="execution")
    (checked,) = root.claim(worker, namespace="rival", lease="10 seconds")
    root.complete(checked)
    keys["validating_step"], keys["validating_claim"] = checked["workflow_step_uuid"], checked["claim_uuid"]
    keys["unstarted"] = root.task(chain("work"), namespace="rival", start=False)
    keys["skippable"] = root.steps(root.task(chain("work"), namespace="rival", vocabulary="execution", start=False))[
        "work"
    ]
    # its message is lost
    keys["lost"] = root.task(chain("work"), namespace="rival")
    root.run("delete from pgmq.q_worker_rival_queue")
    # reported, and waiting for orchestration
    root.task(chain("work"), namespace="rival")
    (reported,) = root.claim(worker, namespace="rival", lease="10 seconds")
    root.complete(reported, MARK)
    root.task(chain("work"), namespace="rival")  # can be claimed
    root.run("insert into tasker.test_clock (shift) values ('2 hours')")

    keys["own_cursor"] = acme.values("select cursor from tasker.changes_after()")[-1]
    return World(root, acme, keys)
