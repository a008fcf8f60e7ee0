create or replace function tasker.wake_parents(p_task_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_steps uuid[];
begin
  select array_agg(s.workflow_step_uuid)
    into v_steps
    from unnest(p_task_uuids) as asked(task_uuid)
   cross join lateral (select * from tasker.child_tasks c where c.task_uuid = asked.task_uuid limit 1) c
   cross join lateral (select s.workflow_step_uuid from tasker.workflow_steps s
                        where s.workflow_step_uuid = c.workflow_step_uuid and s.claim_uuid = c.claim_uuid limit 1) s;
  if v_steps is not null then
    perform tasker.wake_engine(v_steps);
  end if;
end
$$;
comment on function tasker.wake_parents(uuid[]) is
  'These tasks have ended: the engine looks at the steps that wait for them when this has committed. Nobody locks a parent while holding its child.';
