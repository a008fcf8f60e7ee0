create or replace function tasker.lock_for_report(p_step_uuids uuid[], p_settle uuid[] default '{}') returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_tasks uuid[];
  v_free  uuid[] := array[]::uuid[];
begin
  -- where a report settles the step at once, its task comes first
  v_tasks := array(
    select distinct s.task_uuid
      from unnest(p_step_uuids) as asked(workflow_step_uuid)
     cross join lateral (select s.task_uuid, s.lifecycle from tasker.workflow_steps s
                          where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
      join tasker.lifecycles l on l.lifecycle = s.lifecycle and l.settles_at_report);
  if cardinality(v_tasks) > 0 then
    perform tasker.lock_tasks(v_tasks);
  end if;
  if cardinality(p_settle) > 0 then
    -- elsewhere only if nobody else is at it: no report waits for another one
    v_free := array(
      select t.task_uuid from tasker.tasks t
       where t.task_uuid = any (array(
               select distinct s.task_uuid
                 from unnest(p_settle) as asked(workflow_step_uuid)
                cross join lateral (select s.task_uuid from tasker.workflow_steps s
                                     where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s))
         for no key update skip locked);
  end if;
  perform tasker.lock_steps(p_step_uuids);
  if cardinality(v_tasks) > 0 then
    -- a failure may end the task, and with it what others hold
    perform tasker.lock_claims(p_step_uuids || array(select s.workflow_step_uuid from tasker.workflow_steps s where s.task_uuid = any (v_tasks)));
  end if;
  -- What belongs to a processor is settled by it, and what may end in failure by orchestration, which then takes more locks.
  return array(
    select f.task_uuid
      from unnest(v_free) as f(task_uuid)
     cross join lateral (select from tasker.tasks t
                          where t.task_uuid = f.task_uuid and t.failed_steps = 0 and t.failed_critical_steps = 0 and t.worker_count is null limit 1) t
     cross join lateral (select from tasker.task_transitions c
                          where c.task_uuid = f.task_uuid and c.most_recent and c.processor_uuid is null limit 1) c);
end
$$;
comment on function tasker.lock_for_report(uuid[], uuid[]) is
  'Locks steps that are about to be reported, and first their tasks where those will move too. p_settle: steps that may be settled with their report. Answers the tasks for which that can be done now: they are locked, nobody was waited for.';
