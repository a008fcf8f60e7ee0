create or replace function tasker.withhold_dependents(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if coalesce(cardinality(p_step_uuids), 0) > 0 then
    update tasker.workflow_steps s
       set unmet_dependencies = s.unmet_dependencies + d.withdrawn
      from (select e.to_step_uuid, count(*)::int as withdrawn
              from tasker.workflow_step_edges e
             where e.from_step_uuid = any (p_step_uuids)
             group by e.to_step_uuid) d
     where s.workflow_step_uuid = d.to_step_uuid;
  end if;
end
$$;
comment on function tasker.withhold_dependents(uuid[]) is
  'The other way round: a step that satisfied its dependents is sent back to work, so they count it again.';
