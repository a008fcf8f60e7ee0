create or replace function tasker.time_out_tasks(p_task_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task record;
begin
  for v_task in
    select t.task_uuid, t.namespace, t.timeout, r.event, r.to_state, t.started_at
      from unnest(p_task_uuids) as asked(task_uuid)
      join tasker.tasks t on t.task_uuid = asked.task_uuid
      join tasker.task_transitions c on c.task_uuid = t.task_uuid and c.most_recent
      join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state and not s.is_terminal
      left join lateral (
        select r.event, r.to_state
          from tasker.lifecycle_transitions r
         where r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation in ('task_timeout', 'cancel_task', 'fail_validation')
           and (r.operation = 'task_timeout' or not exists (select from tasker.lifecycle_transitions x
                                                             where x.lifecycle = c.lifecycle and x.operation = 'task_timeout'))
         order by array_position(array['task_timeout', 'cancel_task', 'fail_validation'], r.operation)
         limit 1) r on true
     order by t.task_uuid
  loop
    if v_task.event is null then
      -- not started, or in a state that is left soon: look again
      insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
      values (tasker.clock() + v_task.timeout, 'task_timeout', v_task.task_uuid, v_task.namespace, 0);
    else
      perform tasker.append_task_event(v_task.task_uuid, v_task.event, v_task.to_state, null,
                                       jsonb_build_object('reason', format('the task took longer than %s', v_task.timeout)));
      perform tasker.cancel_open_steps(v_task.task_uuid, jsonb_build_object('reason', 'the task took too long'), true);
    end if;
  end loop;
end
$$;
comment on function tasker.time_out_tasks(uuid[]) is
  'Ends locked tasks that took too long (seed 000 task timeout, seed 004 Timeout): what is under way is fenced off.';
