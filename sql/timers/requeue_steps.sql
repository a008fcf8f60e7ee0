create or replace function tasker.requeue_steps(p_timers tasker.timers[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.enqueue_steps(array(
    select t.workflow_step_uuid
      from unnest(p_timers) t
     cross join lateral (select c.sort_key from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = t.workflow_step_uuid and c.most_recent limit 1) c
     where t.kind = 'requeue' and c.sort_key = t.sort_key));
end
$$;
comment on function tasker.requeue_steps(tasker.timers[]) is
  'Puts steps whose delay is over, or that a breaker held back, into their queue. Their state did not change; one that has moved meanwhile is left alone.';
