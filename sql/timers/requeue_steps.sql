create or replace function tasker.requeue_steps(p_timers tasker.timers[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_steps      uuid[];
  v_tasks      uuid[];
  v_namespaces text[];
begin
  select array_agg(t.workflow_step_uuid), array_agg(t.task_uuid), array_agg(t.namespace)
    into v_steps, v_tasks, v_namespaces
    from unnest(p_timers) t
   cross join lateral (select c.sort_key from tasker.workflow_step_transitions c
                        where c.workflow_step_uuid = t.workflow_step_uuid and c.most_recent limit 1) c
   where t.kind = 'requeue' and c.sort_key = t.sort_key;
  perform tasker.enqueue_steps(v_steps, v_tasks, v_namespaces);
end
$$;
comment on function tasker.requeue_steps(tasker.timers[]) is
  'Puts steps whose delay is over, or that a breaker held back, into their queue. Their state did not change; one that has moved meanwhile is left alone.';
