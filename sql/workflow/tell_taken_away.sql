create or replace function tasker.tell_taken_away(p_step_uuids uuid[]) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  select tasker.notify_chunked('tasker_worker_state', array_agg(
           jsonb_build_object('kind', 'step_taken_away', 'worker_uuid', s.worker_uuid, 'uuid', s.workflow_step_uuid)))
    from tasker.workflow_steps s
   where s.workflow_step_uuid = any (p_step_uuids) and s.claim_uuid is not null
  having count(*) > 0
$$;
comment on function tasker.tell_taken_away(uuid[]) is
  'Tells workers that steps they hold are about to be taken from them, so that they stop at once and not at their next heartbeat.';
