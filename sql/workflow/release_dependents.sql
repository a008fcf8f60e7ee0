create or replace function tasker.release_dependents(p_step_uuids uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_ready uuid[];
begin
  with counted as (
    update tasker.workflow_steps s
       set unmet_dependencies = s.unmet_dependencies - d.satisfied
      from (select e.to_step_uuid, count(*)::int as satisfied
              from tasker.workflow_step_edges e
             where e.from_step_uuid = any (p_step_uuids)
             group by e.to_step_uuid) d
     where s.workflow_step_uuid = d.to_step_uuid
    returning s.workflow_step_uuid, s.unmet_dependencies
  )
  select array_agg(c.workflow_step_uuid order by c.workflow_step_uuid)
    into v_ready
    from counted c
   where c.unmet_dependencies = 0;
  return coalesce(v_ready, '{}');
end
$$;
comment on function tasker.release_dependents(uuid[]) is
  'Seed 004 TriggerStepDiscoveryAction: counts satisfied steps down in their dependents and returns those that became ready. One call for all results of a batch, under the lock of the task, so that no two parents can miss each other.';
