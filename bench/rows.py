"""`python -m bench.rows`: what the rows of a step cost without any rule, by size of the calls.

The rows that the engine wrote for one-step jobs and for chains are written into the same tables again, emptied, with
the same indexes, by plain statements over sets in calls of the same size: no guard, nothing looked up and nothing
decided. Once without triggers, so with no check and no foreign key either: what any engine over these tables pays.
Once with them, as the specification wants it: what stores no illegal transition and no result without its audit row.
And once in other tables, without triggers: what the next design would pay, which keeps the current state in the row of
the step or task, so that no row of a log is ever written again, and results with three indexes instead of nine.
Measured as `bench.profile` does. Prints a table in Markdown for each.
"""

from __future__ import annotations

import enum
import statistics

from bench import server
from bench.profile import CHAIN, HEAD, SIZES, STEPS, Session


class Tables(enum.Enum):
    """Which tables the rows are written into."""

    BARE = "Without triggers and foreign keys"
    GUARDED = "With triggers and foreign keys"
    NEXT = "In the tables of the next design, without triggers and foreign keys"


_SAVE = """
create temp table task_rows as
  select t.*, ((row_number() over (order by task_uuid) - 1) / {size})::int as batch from tasker.tasks t;
create temp table step_rows as
  select s.*, t.batch,
         (row_number() over (partition by task_uuid order by s.ordinal) - 1)::int as place
    from tasker.workflow_steps s join task_rows t using (task_uuid);
create temp table edge_rows as
  select e.*, s.batch from tasker.workflow_step_edges e join step_rows s on s.workflow_step_uuid = e.to_step_uuid;
create temp table task_log as
  select c.*, t.batch, (row_number() over (partition by task_uuid order by c.sort_key) - 1)::int as nth
    from tasker.task_transitions c join task_rows t using (task_uuid);
create temp table step_log as
  select c.*, s.batch, s.place,
         (row_number() over (partition by workflow_step_uuid order by c.sort_key) - 1)::int as nth
    from tasker.workflow_step_transitions c join step_rows s using (workflow_step_uuid);
create temp table audit_rows as
  select a.*, s.batch, s.place from tasker.workflow_step_result_audit a join step_rows s using (workflow_step_uuid);
create index on task_rows (batch);
create index on step_rows (batch, place);
create index on edge_rows (batch);
create index on task_log (batch, nth);
create index on step_log (batch, place, nth);
create index on audit_rows (batch, place);
analyze task_rows, step_rows, edge_rows, task_log, step_log, audit_rows;
create function pg_temp.triggers(p_switch text) returns void language plpgsql as $$
declare
  v_table regclass;
begin
  for v_table in select c.oid from pg_class c where c.relnamespace = 'tasker'::regnamespace and c.relkind = 'r' loop
    execute format('alter table %s %s trigger all', v_table, p_switch);
  end loop;
end $$;
select pg_temp.triggers('disable');
truncate tasker.tasks, tasker.workflow_steps, tasker.workflow_step_edges, tasker.task_transitions,
  tasker.workflow_step_transitions, tasker.workflow_step_result_audit, tasker.step_claims, tasker.changes,
  pgmq.q_worker_default_queue cascade;
"""

# In each function the statements of one call; `nth` counts the log rows of a task or step, `place` the steps of a
# chain.
_CALLS = """
create function pg_temp.create_rows(p_batch int) returns void language plpgsql as $$
begin
  insert into tasker.tasks ({tasks}) select {tasks} from task_rows where batch = p_batch;
  insert into tasker.workflow_steps ({new_steps}) select {new_steps} from step_rows where batch = p_batch;
  insert into tasker.workflow_step_edges ({edges}) select {edges} from edge_rows where batch = p_batch;
  insert into tasker.task_transitions ({task_log}, most_recent)
  select {task_log}, {flagged} and nth = 3 from task_log where batch = p_batch and nth <= 3;
  insert into tasker.workflow_step_transitions ({step_log}, most_recent)
  select {step_log}, {flagged} and (place > 0 or nth = 1) from step_log
   where batch = p_batch and nth <= case place when 0 then 1 else 0 end;
  insert into pgmq.q_worker_default_queue (vt, message)
  select clock_timestamp(), jsonb_build_object('step_uuid', workflow_step_uuid) from step_rows
   where batch = p_batch and place = 0;
end $$;
create function pg_temp.take_rows(p_batch int, p_place int) returns void language plpgsql as $$
declare
  v_claim uuid := gen_random_uuid();
begin
  update tasker.workflow_steps s
     set unmet_dependencies = 0, attempts = s.attempts + 1, claim_uuid = v_claim, worker_uuid = r.worker_uuid,
         last_attempted_at = r.last_attempted_at
    from step_rows r
   where r.batch = p_batch and r.place = p_place and s.workflow_step_uuid = r.workflow_step_uuid;
  with ended as (
    update tasker.workflow_step_transitions c set most_recent = false, updated_at = clock_timestamp()
      from step_log r
     where {flagged} and r.batch = p_batch and r.place = p_place and r.nth = case p_place when 0 then 1 else 0 end
       and c.workflow_step_transition_uuid = r.workflow_step_transition_uuid
    returning 1
  )
  insert into tasker.workflow_step_transitions ({step_log}, most_recent)
  select {step_log}, {flagged} and nth = 2 from step_log
   where batch = p_batch and place = p_place and nth between case p_place when 0 then 2 else 1 end and 2
     and (not {flagged} or (select count(*) from ended) > 0);
  insert into tasker.step_claims
    (claim_uuid, worker_uuid, namespace, step_uuids, open_steps, claimed_at, lease_expires_at, first_timeout_at)
  select v_claim, (array_agg(worker_uuid))[1], 'default', array_agg(workflow_step_uuid), count(*), clock_timestamp(),
         clock_timestamp(), clock_timestamp()
    from step_rows where batch = p_batch and place = p_place;
end $$;
create function pg_temp.claim_rows(p_batch int) returns void language plpgsql as $$
begin
  delete from pgmq.q_worker_default_queue q
   where q.msg_id in (select m.msg_id from pgmq.q_worker_default_queue m
                       where m.vt <= clock_timestamp() order by m.msg_id limit {size} for update skip locked);
  perform pg_temp.take_rows(p_batch, 0);
end $$;
create function pg_temp.report_rows(p_batch int, p_place int) returns void language plpgsql as $$
begin
  delete from tasker.step_claims c where c.claim_uuid = (
    select s.claim_uuid from tasker.workflow_steps s
     where s.workflow_step_uuid = (select r.workflow_step_uuid from step_rows r
                                    where r.batch = p_batch and r.place = p_place limit 1));
  update tasker.workflow_steps s set claim_uuid = null, result_transition_uuid = r.result_transition_uuid
    from step_rows r where r.batch = p_batch and r.place = p_place and s.workflow_step_uuid = r.workflow_step_uuid;
  with ended as (
    update tasker.workflow_step_transitions c set most_recent = false, updated_at = clock_timestamp()
      from step_log r
     where {flagged} and r.batch = p_batch and r.place = p_place and r.nth = 2
       and c.workflow_step_transition_uuid = r.workflow_step_transition_uuid
    returning 1
  )
  insert into tasker.workflow_step_transitions ({step_log}, most_recent)
  select {step_log}, {flagged} and nth = 4 from step_log
   where batch = p_batch and place = p_place and nth > 2 and (not {flagged} or (select count(*) from ended) > 0);
  if not {guarded} then  -- otherwise trg_step_result_audit writes them
    insert into tasker.workflow_step_result_audit ({audit})
    select {audit} from audit_rows where batch = p_batch and place = p_place;
  end if;
  update tasker.tasks t set started_at = r.started_at, completed_at = r.completed_at
    from task_rows r where r.batch = p_batch and t.task_uuid = r.task_uuid;
  with ended as (
    update tasker.task_transitions c set most_recent = false, updated_at = clock_timestamp()
      from task_log r
     where {flagged} and r.batch = p_batch and r.nth = 3 + 3 * p_place
       and c.task_transition_uuid = r.task_transition_uuid
    returning 1
  )
  insert into tasker.task_transitions ({task_log}, most_recent)
  select {task_log}, {flagged} and nth = least({last}, 6 + 3 * p_place) from task_log
   where batch = p_batch and nth between 4 + 3 * p_place and 6 + 3 * p_place
     and (not {flagged} or (select count(*) from ended) > 0);
  if p_place + 1 < {steps} then
    perform pg_temp.take_rows(p_batch, p_place + 1);
  end if;
end $$;
"""

_NEXT = """
drop index tasker.task_transitions_most_recent_idx, tasker.task_transitions_state_idx,
  tasker.workflow_step_transitions_most_recent_idx, tasker.idx_audit_step_uuid, tasker.idx_audit_task_uuid,
  tasker.idx_audit_worker_uuid, tasker.idx_audit_correlation_id, tasker.idx_audit_success;
alter table tasker.workflow_step_result_audit
  drop constraint workflow_step_result_audit_workflow_step_uuid_workflow_step_key;
"""

_SET_LATER = ("claim_uuid", "worker_uuid", "last_attempted_at", "result_transition_uuid")


def rewrite(dsn: str, steps: int, size: int, tables: Tables) -> dict[str, float]:
    """Let the engine make and finish instances of so many steps, and write their rows again into these tables; the
    median seconds that each call takes for one of its steps."""
    session = Session(dsn)
    conn = session.connection
    for _ in range(max(3, STEPS // size // steps)):
        (session.jobs if steps == 1 else session.chains)(size)
    conn.execute(_SAVE.format(size=size).encode())

    def columns(table: str, without: tuple[str, ...] = ()) -> str:
        rows = conn.execute(
            "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 and not attisdropped",
            [table],
        ).fetchall()
        return ", ".join(row["attname"] for row in rows if row["attname"] not in without)

    names = {
        "tasks": columns("tasker.tasks"),
        "new_steps": columns("tasker.workflow_steps", _SET_LATER),
        "edges": columns("tasker.workflow_step_edges"),
        "task_log": columns("tasker.task_transitions", ("most_recent",)),
        "step_log": columns("tasker.workflow_step_transitions", ("most_recent",)),
        "audit": columns("tasker.workflow_step_result_audit"),
        "size": size,
        "steps": steps,
        "last": 2 + 3 * steps,
        "guarded": tables is Tables.GUARDED,
        "flagged": tables is not Tables.NEXT,
    }
    conn.execute(_CALLS.format(**names).encode())
    if tables is Tables.GUARDED:
        conn.execute("select pg_temp.triggers('enable')")
    elif tables is Tables.NEXT:
        conn.execute(_NEXT.encode())
    for setting in ("enable_seqscan", "enable_hashjoin", "enable_mergejoin"):  # as the engine's functions
        conn.execute(f"set {setting} = off".encode())
    (batches,) = conn.execute("select max(batch) + 1 as n from task_rows").fetchall()
    session.taken.clear()
    for batch in range(batches["n"]):
        session.call("create", size * steps, "select pg_temp.create_rows(%s)", batch)
        session.call("claim", size, "select pg_temp.claim_rows(%s)", batch)
        for place in range(steps):
            session.call("report", size, "select pg_temp.report_rows(%s, %s)", batch, place)
    return {name: statistics.median(times) for name, times in session.taken.items()}


def main() -> int:
    with server.running() as running:
        for tables in Tables:
            print(f"\n{tables.value}\n\n{HEAD}")
            for size in SIZES:
                told: list[float] = []
                for steps in (1, CHAIN):
                    with running.database() as database:
                        taken = rewrite(database.dsn, steps, size, tables)
                    told += list(taken.values()) if steps == 1 else [taken["report"]]
                print(f"| {size:,} | {' | '.join(f'{1e6 * seconds:,.0f}' for seconds in told)} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
