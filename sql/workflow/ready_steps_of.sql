create or replace function tasker.ready_steps_of(p_task_uuids uuid[]) returns uuid[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  if coalesce(cardinality(p_task_uuids), 0) = 0 then
    return array[]::uuid[];
  end if;
  return array(select s.workflow_step_uuid
                 from tasker.workflow_steps s
                where s.task_uuid = any (p_task_uuids) and s.unmet_dependencies <= 0
                order by s.ordinal);
end
$$;
comment on function tasker.ready_steps_of(uuid[]) is
  'Every step of these tasks whose dependencies are satisfied, whatever its state. Its settings keep any plan from reading all steps there are.';
