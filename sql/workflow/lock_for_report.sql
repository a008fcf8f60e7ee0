create or replace function tasker.lock_for_report(p_step_uuids uuid[], p_ahead uuid[], p_settle uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_free uuid[] := array[]::uuid[];
begin
  -- where a report settles the step at once, its task comes first
  if cardinality(p_ahead) > 0 then
    perform tasker.lock_tasks(p_ahead);
  end if;
  if cardinality(p_settle) > 0 then
    -- Elsewhere only if nobody else is at it: no report waits for another one. Jobs, and what may end in failure, are left to
    -- orchestration, which then takes more locks.
    v_free := array(
      select t.task_uuid from tasker.tasks t
       where t.task_uuid = any (p_settle) and t.failed_steps = 0 and t.failed_critical_steps = 0 and t.worker_count is null
         for no key update skip locked);
  end if;
  perform tasker.lock_steps(p_step_uuids);
  if cardinality(p_ahead) > 0 then
    -- a failure may end the task, and with it what others hold
    perform tasker.lock_claims(p_step_uuids || array(select s.workflow_step_uuid from tasker.workflow_steps s where s.task_uuid = any (p_ahead)));
  end if;
  -- what belongs to a processor is settled by it
  return array(select c.task_uuid from tasker.task_transitions c
                where c.task_uuid = any (v_free) and c.most_recent and c.processor_uuid is null);
end
$$;
comment on function tasker.lock_for_report(uuid[], uuid[], uuid[]) is
  'Locks steps that are about to be reported, and first their tasks where those will move too (p_ahead). p_settle: tasks of steps that may be settled with their report. Answers those of them for which that can be done now: they are locked, nobody was waited for.';
