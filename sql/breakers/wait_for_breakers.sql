create or replace function tasker.wait_for_breakers(p_step_uuids uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_waiting uuid[];
begin
  if not exists (select from tasker.circuit_breakers) then
    return array[]::uuid[];
  end if;
  -- Nothing is locked: a breaker that moves at this moment is seen by the next call.
  with waiting as materialized (
    select s.workflow_step_uuid, s.task_uuid, s.namespace, c.sort_key, b.tool, coalesce(b.cools_until, b.trial_expires_at) as due_at
      from unnest(p_step_uuids) as asked(workflow_step_uuid)
     cross join lateral (select * from tasker.workflow_steps s where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
     cross join lateral (select t.sort_key, t.lifecycle, t.to_state from tasker.workflow_step_transitions t
                          where t.workflow_step_uuid = s.workflow_step_uuid and t.most_recent limit 1) c
      join tasker.circuit_breakers b on b.tool = coalesce(s.tool, s.handler)
     where coalesce(b.cools_until, b.trial_expires_at) > tasker.clock()
       -- where being held back is a move of its own, hold_back_steps makes it
       and not exists (select from tasker.lifecycle_transitions r
                        where r.lifecycle = s.lifecycle and r.from_state = c.to_state and r.operation = 'hold_back')
       -- where being held back is a move, it is made under the locks of the claim
       and (select true from tasker.lifecycle_transitions r
             where r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'hold_back' limit 1) is null
  ), timed as (
    insert into tasker.timers (due_at, kind, task_uuid, namespace, workflow_step_uuid, sort_key, tool)
    select w.due_at, 'requeue', w.task_uuid, w.namespace, w.workflow_step_uuid, w.sort_key, w.tool from waiting w
  )
  select coalesce(array_agg(w.workflow_step_uuid), '{}') into v_waiting from waiting w;
  return v_waiting;
end
$$;
comment on function tasker.wait_for_breakers(uuid[]) is
  'Which of these steps, taken out of their queues, have to wait since the breaker of their tool is open or tries somebody else: they stand in timers and use up no attempt.';
