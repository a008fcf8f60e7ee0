create or replace function tasker.release_waits(p_step_uuids uuid[]) returns tasker.drive_counts
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_ready uuid[] := tasker.end_waits(p_step_uuids);
begin
  return tasker.drive_tasks(array(select distinct s.task_uuid
                                    from unnest(v_ready) as r(workflow_step_uuid)
                                   cross join lateral (select s.task_uuid from tasker.workflow_steps s
                                                        where s.workflow_step_uuid = r.workflow_step_uuid limit 1) s), v_ready);
end
$$;
comment on function tasker.release_waits(uuid[]) is
  'Lets steps go on whose event is there, and drives their tasks. The caller holds the locks of both.';
