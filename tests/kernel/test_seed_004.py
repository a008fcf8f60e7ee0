"""Rules, tables and names are those that seed 004 prints, edge by edge and column by column, both ways."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kernel import seed004
from tests.kernel.engine import Engine

LIFECYCLES = ["tasker.task", "tasker.workflow_step"]

# Edges that no diagram draws, each with the reason why it is here.
_TAKEN_OVER = "the seed lists event ProcessorCrashed and draws no edge for it: a dead owner's task must not be stranded"
_TIMED_OUT = "the seed lists event Timeout and draws no edge for it"
ADDITIONS: dict[str, dict[tuple[str, str, str], str]] = {
    "tasker.task": {
        **{
            (state, "processor_crashed", state): _TAKEN_OVER
            for state in ("initializing", "enqueuing_steps", "steps_in_process", "evaluating_results")
        },
        **{
            (state, "timeout", "error"): _TIMED_OUT
            for state in (
                "initializing", "enqueuing_steps", "steps_in_process", "evaluating_results",
                "waiting_for_dependencies", "waiting_for_retry", "blocked_by_failures",
            )
        },
        ("steps_in_process", "retry_ready", "enqueuing_steps"): "a backoff ends while other steps are still under way",
        ("blocked_by_failures", "failures_resolved", "evaluating_results"):
            "the seed resolves and retries single steps, but draws no way for their task to go on",
    },
    "tasker.workflow_step": {
        ("error", "retry", "pending"): "the seed's event list: Retry step from WaitingForRetry or Error state",
    },
}  # fmt: skip

EVENT_ADDITIONS = {
    "tasker.task": {
        "reset": "the diagram draws Reset and the event list forgets it",
        "failures_resolved": "of the added edge out of blocked_by_failures",
    },
    "tasker.workflow_step": {},
}

# Properties that the page names and does not list state by state; they follow from its descriptions.
STEP_PROPERTIES = {
    "is_error": {"error", "enqueued_as_error_for_orchestration"},
    "is_active": {"in_progress"},
    "is_in_processing_pipeline": {
        "enqueued", "in_progress", "enqueued_for_orchestration", "enqueued_as_error_for_orchestration",
    },
    "is_ready_for_claiming": {"enqueued"},
    "satisfies_dependencies": {"complete", "resolved_manually"},
}  # fmt: skip


def with_flag(engine: Engine, lifecycle: str, flag: str) -> set[str]:
    return set(engine.values(f"select state from tasker.lifecycle_states where lifecycle = %s and {flag}", lifecycle))


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_the_transition_rows_are_the_edges_of_the_diagram(engine: Engine, shared: Path, lifecycle: str) -> None:
    drawn = seed004.edges(shared, lifecycle)
    assert len(drawn) == {"tasker.task": 26, "tasker.workflow_step": 27}[lifecycle], "the parser lost an arrow"
    rows = engine.rows(
        "select from_state, event, to_state, is_legacy, is_addition from tasker.lifecycle_transitions"
        " where lifecycle = %s",
        lifecycle,
    )
    edges = {(row["from_state"], row["event"], row["to_state"]): row for row in rows}
    assert len(edges) == len(rows)

    from_seed = {(edge.from_state, edge.event, edge.to_state) for edge in drawn}
    assert {edge for edge, row in edges.items() if not row["is_addition"]} == from_seed
    assert {edge for edge, row in edges.items() if row["is_addition"]} == set(ADDITIONS[lifecycle])
    assert {edge for edge, row in edges.items() if row["is_legacy"]} == {
        (edge.from_state, edge.event, edge.to_state) for edge in drawn if edge.is_legacy
    }


def test_the_diagrams_mark_these_edges_as_legacy(shared: Path) -> None:
    """Guards the reader of the diagrams, which must see both the notes in brackets and the comment lines."""
    legacy = {
        (lifecycle, edge.from_state, edge.to_state)
        for lifecycle in LIFECYCLES
        for edge in seed004.edges(shared, lifecycle)
        if edge.is_legacy
    }
    assert legacy == {
        ("tasker.task", "error", "pending"),
        ("tasker.workflow_step", "in_progress", "complete"),
        ("tasker.workflow_step", "in_progress", "error"),
        ("tasker.workflow_step", "pending", "in_progress"),
    }


@pytest.mark.parametrize(
    ("lifecycle", "heading", "until", "count"),
    [
        ("tasker.task", "Task State Definitions", "Task State Properties", 12),
        ("tasker.workflow_step", "Step State Definitions", "State Machine Evolution", 10),
    ],
)
def test_the_states_are_those_of_the_page_in_its_order(
    engine: Engine, shared: Path, lifecycle: str, heading: str, until: str, count: int
) -> None:
    listed = list(seed004.bullets(seed004.section(shared, heading, until)))
    assert len(listed) == count
    stored = engine.values("select state from tasker.lifecycle_states where lifecycle = %s order by ordinal", lifecycle)
    # The page lists the step's waiting state after all pipeline states, as we do.
    assert stored == listed
    initial = engine.one("select initial_state from tasker.lifecycles where lifecycle = %s", lifecycle)
    assert initial == seed004.initial_state(shared, lifecycle)


@pytest.mark.parametrize(
    ("lifecycle", "heading", "until"),
    [
        ("tasker.task", "Task Event System", "Processor Ownership"),
        ("tasker.workflow_step", "Step Event System", "Step Execution Flow Integration"),
    ],
)
def test_the_events_are_those_of_the_page(
    engine: Engine, shared: Path, lifecycle: str, heading: str, until: str
) -> None:
    listed = set(seed004.bullets(seed004.section(shared, heading, until)))
    stored = set(engine.values("select event from tasker.lifecycle_events where lifecycle = %s", lifecycle))
    assert stored == listed | set(EVENT_ADDITIONS[lifecycle])
    used = engine.values("select distinct event from tasker.lifecycle_transitions where lifecycle = %s", lifecycle)
    assert stored == set(used), "an event without an edge can never happen"


@pytest.mark.parametrize("lifecycle", LIFECYCLES)
def test_terminal_states_are_those_with_an_arrow_to_the_end(engine: Engine, shared: Path, lifecycle: str) -> None:
    assert with_flag(engine, lifecycle, "is_terminal") == seed004.final_states(shared, lifecycle)


def test_task_properties_are_those_of_the_page(engine: Engine, shared: Path) -> None:
    ownership = set(seed004.names_after(shared, "Ownership-Required States"))
    assert len(ownership) == 4
    assert with_flag(engine, "tasker.task", "requires_ownership") == ownership
    assert ownership == set(seed004.names_after(shared, "States requiring ownership"))
    processable = set(seed004.names_after(shared, "Processable States"))
    assert len(processable) == 3
    assert with_flag(engine, "tasker.task", "can_be_processed") == processable

    def under(heading: str, until: str) -> set[str]:
        return set(seed004.bullets(seed004.section(shared, heading, until)))

    # is_active: "Currently being processed". Initializing is listed under Initial States, but is owned and processed.
    assert with_flag(engine, "tasker.task", "is_active") == under("Active Processing States", "Waiting States") | {
        "initializing"
    }
    task_part = seed004.section(shared, "Task State Definitions", "Task State Properties")
    waiting = task_part[task_part.index("Waiting States") : task_part.index("Terminal States")]
    assert with_flag(engine, "tasker.task", "is_waiting") == set(seed004.bullets(waiting))


@pytest.mark.parametrize("flag", STEP_PROPERTIES)
def test_step_properties_follow_the_descriptions_of_the_page(engine: Engine, shared: Path, flag: str) -> None:
    assert f"pub fn {flag}(&self)" in seed004.text(shared)
    assert with_flag(engine, "tasker.workflow_step", flag) == STEP_PROPERTIES[flag]


def test_every_property_function_of_the_page_is_a_column(engine: Engine, shared: Path) -> None:
    functions = set(re.findall(r"pub fn (\w+)\(&self\) -> bool", seed004.text(shared)))
    assert len(functions) == 9
    columns = set(
        engine.values("select attname from pg_attribute where attrelid = 'tasker.lifecycle_states'::regclass")
    )
    assert functions <= columns


TABLES = {
    "tasker.task_transitions": 10,
    "tasker.workflow_step_transitions": 9,
    "tasker.workflow_step_result_audit": 11,
}

# Where a column is stricter than printed, and why.
STRICTER = {"most_recent": "a row is the current one or it is not: NULL would be a third answer"}
TYPES = {
    "UUID": "uuid",
    "VARCHAR": "text",
    "JSONB": "jsonb",
    "INTEGER": "integer",
    "BOOLEAN": "boolean",
    "BIGINT": "bigint",
    # docs/decisions.md: with a time zone, so that no session's setting changes a fact
    "TIMESTAMP": "timestamp with time zone",
}
DEFAULTS = {"uuid_generate_v7()": "tasker.uuid_generate_v7()", "false": "false", "NOW()": "clock_timestamp()"}
DEFAULTS["CURRENT_TIMESTAMP"] = DEFAULTS["NOW()"]  # now() stands still in a transaction: two rows would be simultaneous


@pytest.mark.parametrize("table", TABLES)
def test_every_printed_column_is_there(engine: Engine, shared: Path, table: str) -> None:
    printed = seed004.table(shared, table)
    assert len(printed) == TABLES[table], "the parser lost a column"
    stored = {
        row["attname"]: row
        for row in engine.rows(
            "select a.attname, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull,"
            " pg_get_expr(d.adbin, d.adrelid) as preset from pg_attribute a"
            " left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum"
            " where a.attrelid = %s::regclass and a.attnum > 0 and not a.attisdropped",
            table,
        )
    }
    for column in printed:
        row = stored[column.name]
        assert row["type"] == TYPES[column.type], column
        assert row["attnotnull"] is (column.not_null or column.name in STRICTER), column
        assert row["preset"] == (DEFAULTS[column.default] if column.default else None), column


def test_the_key_and_references_of_the_audit_table_are_as_printed(engine: Engine, shared: Path) -> None:
    body = seed004.text(shared)
    for column, table in (
        ("workflow_step_uuid", "tasker.workflow_steps"),
        ("workflow_step_transition_uuid", "tasker.workflow_step_transitions"),
        ("task_uuid", "tasker.tasks"),
    ):
        assert f"{column} UUID NOT NULL REFERENCES {table}" in body
        assert engine.one(
            "select count(*) from pg_constraint where conrelid = 'tasker.workflow_step_result_audit'::regclass"
            " and contype = 'f' and confrelid = %s::regclass and pg_get_constraintdef(oid) like %s",
            table, f"FOREIGN KEY ({column})%",
        ) == 1  # fmt: skip
    assert "UNIQUE (workflow_step_uuid, workflow_step_transition_uuid)" in body
    assert "UNIQUE (workflow_step_uuid, workflow_step_transition_uuid)" in engine.values(
        "select pg_get_constraintdef(oid) from pg_constraint"
        " where conrelid = 'tasker.workflow_step_result_audit'::regclass and contype = 'u'"
    )


def test_the_six_audit_indexes_are_there_and_partial_where_the_page_says_so(engine: Engine, shared: Path) -> None:
    listed = seed004.bullets(seed004.section(shared, "Indexes for Common Query Patterns", "Historical Data"))
    assert len(listed) == 6
    stored = dict(
        (row["name"], row)
        for row in engine.rows(
            "select c.relname as name, x.indpred is not null as partial, a.attname as first from pg_index x"
            " join pg_class c on c.oid = x.indexrelid"
            " join pg_attribute a on a.attrelid = x.indrelid and a.attnum = x.indkey[0]"
            " where x.indrelid = 'tasker.workflow_step_result_audit'::regclass"
        )
    )
    columns = {"step_uuid": "workflow_step_uuid"}
    for name, description in listed.items():
        assert stored[name]["partial"] is ("(partial index)" in description), name
        column = name.removeprefix("idx_audit_")
        assert stored[name]["first"] == columns.get(column, column)


def test_the_current_state_is_one_index_look_up(engine: Engine, shared: Path) -> None:
    """Indexed queries: (task_uuid, most_recent) WHERE most_recent = true, and unique, so that there is only one."""
    assert "(task_uuid, most_recent) WHERE most_recent = true" in seed004.text(shared)
    for table, column in (("task_transitions", "task_uuid"), ("workflow_step_transitions", "workflow_step_uuid")):
        definitions = engine.values(
            "select indexdef from pg_indexes where schemaname = 'tasker' and tablename = %s", table
        )
        assert any(
            definition.startswith("CREATE UNIQUE INDEX") and f"({column}, most_recent) WHERE (most_recent" in definition
            for definition in definitions
        )


def test_functions_and_trigger_that_the_page_names_exist(engine: Engine, shared: Path) -> None:
    body = seed004.text(shared)
    functions = {
        "uuid_generate_v7", "create_step_result_audit", "get_step_readiness_status", "get_task_execution_context",
        "transition_with_ownership", "get_step_audit_history",
    }  # fmt: skip
    renamed = {
        "get_audit_history": "get_step_audit_history",
        "get_task_audit_history": "get_task_audit_history",
        "get_by_worker": "get_audit_by_worker",
        "get_by_correlation_id": "get_audit_by_correlation_id",
        "check_ownership": "foreign_owned",
    }
    for name in functions | set(renamed):
        assert name in body, name
    stored = set(engine.values("select proname from pg_proc where pronamespace = 'tasker'::regnamespace"))
    assert functions | set(renamed.values()) <= stored

    assert "trg_step_result_audit" in body
    assert (
        engine.one(
            "select p.proname from pg_trigger t join pg_proc p on p.oid = t.tgfoid"
            " where t.tgname = 'trg_step_result_audit' and t.tgrelid = 'tasker.workflow_step_transitions'::regclass"
        )
        == "create_step_result_audit"
    )
    # "fires on transitions to": the rows that report a result are those edges, and the legacy direct ones
    rows = engine.rows(
        "select to_state, is_legacy from tasker.lifecycle_transitions"
        " where lifecycle = 'tasker.workflow_step' and reports_result"
    )
    behaviour = seed004.section(shared, "Trigger Behavior", "Querying Audit History")
    assert {row["to_state"] for row in rows if not row["is_legacy"]} == set(seed004.bullets(behaviour))
    assert {row["to_state"] for row in rows if row["is_legacy"]} == {"complete", "error"}


def test_every_action_of_the_page_is_implemented(engine: Engine, shared: Path) -> None:
    listed = re.findall(r"^\s*\d\. (\w+)Action: ", seed004.text(shared), re.M)
    assert len(set(listed)) == 5
    stored = set(engine.values("select action from tasker.transition_actions"))
    assert {seed004.snake(name) for name in listed} <= stored


def test_every_guard_of_the_page_is_named_in_the_comment_of_a_function(engine: Engine, shared: Path) -> None:
    listed = set(re.findall(r"^\s*(?:•\s+)?(Step\w+Guard)\b", seed004.text(shared), re.M))
    assert len(listed) == 6
    # "Step must be InProgress" and "must be EnqueuedForOrchestration" are what the start of an edge says.
    by_edge = {
        "StepCanBeEnqueuedForOrchestrationGuard": "in_progress",
        "StepCanBeCompletedFromOrchestrationGuard": "enqueued_for_orchestration",
        # The page's text says EnqueuedForOrchestration, its diagram draws the failure path: the diagram wins.
        "StepCanBeFailedFromOrchestrationGuard": "enqueued_as_error_for_orchestration",
    }
    events = {"Enqueued": "enqueue_for_orchestration", "Completed": "complete", "Failed": "fail"}
    for guard, state in by_edge.items():
        (event,) = (event for word, event in events.items() if f"CanBe{word}" in guard)
        assert engine.one(
            "select count(*) > 0 from tasker.lifecycle_transitions"
            " where lifecycle = 'tasker.workflow_step' and from_state = %s and event = %s",
            state, event,
        )  # fmt: skip
    comments = " ".join(
        engine.values(
            "select obj_description(oid, 'pg_proc') from pg_proc"
            " where pronamespace = 'tasker'::regnamespace and proname like 'guard%%'",
        )
    )
    assert {guard for guard in listed - set(by_edge) if guard not in comments} == set()
