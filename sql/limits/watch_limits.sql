create or replace function tasker.watch_limits(p_limit_uuids uuid[], p_now timestamptz, p_round int) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  if cardinality(p_limit_uuids) = 0 then
    return;
  end if;
  -- Two who do not see each other yet, one that starts to wait and one that gives back, or one who dies with a slot in hand, leave a
  -- slot that nobody hands on. So a line is looked at again: soon after it changed, then ever more rarely. A rate tells itself when.
  with lines as materialized (
    select l.limit_uuid, l.namespace,
           coalesce((select max(due.at) from (select min(s.free_at) as at from tasker.limit_slots s
                                               where s.limit_uuid = l.limit_uuid and s.kind = 'rate' and s.workflow_step_uuid is null
                                              having tasker.lies_ahead(min(s.free_at), p_now, l.per)) due),
                    p_now + least(60, power(2, least(p_round, 6))) * interval '1 second') as due_at
      from tasker.limits l
     where l.limit_uuid = any (p_limit_uuids) and exists (select from tasker.limit_waits w where w.limit_uuid = l.limit_uuid)
  ), known as materialized (  -- one that tick has in its hands is gone
    select t.timer_uuid, t.limit_uuid from tasker.timers t where t.limit_uuid = any (p_limit_uuids) for update skip locked
  ), sooner as (
    update tasker.timers t set due_at = l.due_at, sort_key = p_round
      from known k join lines l on l.limit_uuid = k.limit_uuid
     where t.timer_uuid = k.timer_uuid and t.due_at > l.due_at
  )
  insert into tasker.timers (due_at, kind, namespace, limit_uuid, sort_key)
  select l.due_at, 'limit', l.namespace, l.limit_uuid, p_round
    from lines l where l.limit_uuid not in (select k.limit_uuid from known k);
end
$$;
comment on function tasker.watch_limits(uuid[], timestamptz, int) is
  'Sets the timer at which the lines of these limits are looked at again: one a limit, however many wait.';
