create or replace function tasker.take_due_timers(p_now timestamptz, p_limit int) returns tasker.timers[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_due   tasker.timers[];
  v_bound text[] := tasker.bound_namespaces();
begin
  with due as materialized (
    select t.timer_uuid from tasker.timers t where t.due_at <= p_now and (v_bound is null or t.namespace = any (v_bound) or (t.kind = 'limit' and t.namespace is null))
     order by t.due_at limit p_limit for update skip locked
  ), taken as (
    delete from tasker.timers t using due where t.timer_uuid = due.timer_uuid returning t.*
  )
  select array_agg((t.*)::tasker.timers) into v_due from taken t;
  return v_due;
end
$$;
comment on function tasker.take_due_timers(timestamptz, int) is
  'Takes the oldest due timers, each for one caller; they come back if that caller dies. Reads nothing that is not due. A bound login takes those of its namespaces, and of limits that all share.';
