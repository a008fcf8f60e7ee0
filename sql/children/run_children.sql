create or replace function tasker.run_children(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_steps   uuid[];
  v_results jsonb[];
begin
  perform tasker.start_children(p_step_uuids);
  -- one that had nothing to do has ended already
  select array_agg(s.workflow_step_uuid), array_agg(tasker.child_report(c.task_uuid, s.sensitive_result))
    into v_steps, v_results
    from unnest(p_step_uuids) as asked(workflow_step_uuid)
   cross join lateral (select * from tasker.workflow_steps s
                        where s.workflow_step_uuid = asked.workflow_step_uuid and s.claim_uuid is not null and s.worker_uuid is null limit 1) s
   cross join lateral (select c.task_uuid from tasker.child_tasks c
                        where c.workflow_step_uuid = s.workflow_step_uuid and c.claim_uuid = s.claim_uuid limit 1) c
   cross join lateral (select from tasker.tasks t where t.task_uuid = c.task_uuid and t.completed_at is not null limit 1) ended;
  if v_steps is not null then
    perform tasker.report_by_engine(v_steps, v_results);
  end if;
end
$$;
comment on function tasker.run_children(uuid[]) is
  'Of steps that the engine holds and that run workflows: creates the tasks of those that have none for this attempt, and reports those whose task has ended. The caller holds the locks of the steps and their tasks.';
