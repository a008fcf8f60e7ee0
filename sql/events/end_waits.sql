create or replace function tasker.end_waits(p_step_uuids uuid[], p_timed_out boolean default false) returns uuid[]
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
  with ended as (
    update tasker.event_waits w set ended_at = clock_timestamp(), timed_out = p_timed_out
     where w.workflow_step_uuid = any (p_step_uuids) and w.ended_at is null
    returning w.workflow_step_uuid
  ), counted as (
    update tasker.workflow_steps s set unmet_dependencies = s.unmet_dependencies - tasker.wait_weight(s.options)
      from ended e where s.workflow_step_uuid = e.workflow_step_uuid
    returning s.workflow_step_uuid, s.unmet_dependencies
  )
  select array_agg(c.workflow_step_uuid order by c.workflow_step_uuid) into v_ready from counted c where c.unmet_dependencies <= 0;
  return coalesce(v_ready, '{}');
end
$$;
comment on function tasker.end_waits(uuid[], boolean) is
  'The wait of these locked steps is over: their event is there, or did not come in time and they are to run without it. Answers those that are ready now.';
