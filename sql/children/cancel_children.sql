create or replace function tasker.cancel_children(p_timers tasker.timers[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  c_reason constant jsonb := '{"reason": "the step or task that it belongs to ended before it"}'::jsonb;
  v_tasks  uuid[] := array(select distinct t.task_uuid from unnest(p_timers) t where t.kind = 'cancel_child');
  v_task   record;
begin
  if cardinality(v_tasks) = 0 then
    return;
  end if;
  for v_task in
    select t.task_uuid, t.namespace, r.event, r.to_state
      from unnest(v_tasks) as asked(task_uuid)
      join tasker.tasks t on t.task_uuid = asked.task_uuid and t.completed_at is null
      join tasker.task_transitions c on c.task_uuid = t.task_uuid and c.most_recent
      left join lateral (select r.event, r.to_state from tasker.lifecycle_transitions r
                          where r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'cancel_task'
                          order by r.ordinal limit 1) r on true
     order by t.task_uuid
  loop
    if v_task.event is null then
      -- in a state that is left soon: look again
      insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
      values (tasker.clock() + interval '10 seconds', 'cancel_child', v_task.task_uuid, v_task.namespace, 0);
    else
      perform tasker.append_task_event(v_task.task_uuid, v_task.event, v_task.to_state, null, c_reason);
      perform tasker.cancel_open_steps(v_task.task_uuid, c_reason);
      insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
      select tasker.clock(), 'cancel_child', k.task_uuid, k.namespace, 0
        from tasker.tasks k
       where k.parent_task_uuid = v_task.task_uuid and k.completed_at is null and k.compensates_task_uuid is null
         and not exists (select from tasker.child_tasks c where c.task_uuid = k.task_uuid);
    end if;
  end loop;
end
$$;
comment on function tasker.cancel_children(tasker.timers[]) is
  'Cancels tasks whose step does not wait for them any more, and then their own children. The caller holds the locks of the tasks, their steps and claims.';
