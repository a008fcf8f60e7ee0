create or replace function tasker.drop_waits(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  if coalesce(cardinality(p_step_uuids), 0) = 0 then
    return;
  end if;
  with dropped as (
    delete from tasker.event_waits w where w.workflow_step_uuid = any (p_step_uuids) and w.ended_at is null
    returning w.workflow_step_uuid
  )
  update tasker.workflow_steps s set unmet_dependencies = s.unmet_dependencies - tasker.wait_weight(s.options)
    from dropped d where s.workflow_step_uuid = d.workflow_step_uuid;
end
$$;
comment on function tasker.drop_waits(uuid[]) is
  'These locked steps wait no longer, as if they never had: they ended, or their task did. One that goes back to work waits anew.';
