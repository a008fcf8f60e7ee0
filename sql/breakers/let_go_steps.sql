create or replace function tasker.let_go_steps(p_tool text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  -- a timer that tick has in its hands is on its way already; waiting for it could close a circle of locks
  with waiting as materialized (
    select t.timer_uuid from tasker.timers t where t.tool = p_tool and t.kind = 'requeue' for update skip locked
  )
  update tasker.timers t set due_at = tasker.clock() from waiting where t.timer_uuid = waiting.timer_uuid;
end
$$;
comment on function tasker.let_go_steps(text) is 'The steps that the breaker of a tool held back are due now.';
