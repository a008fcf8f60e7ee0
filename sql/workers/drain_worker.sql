create or replace function tasker.drain_worker(
  p_worker_uuid uuid,
  p_reason text,
  p_requested_by text,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'drain_worker', jsonb_build_array(p_worker_uuid, p_reason, p_requested_by));
begin
  if v_answer is not null then
    return v_answer;
  end if;
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.lock_worker_or_refuse(p_worker_uuid);
  update tasker.workers w
     set shutdown_requested_at = coalesce(w.shutdown_requested_at, clock_timestamp()), drain_requested_at = coalesce(w.drain_requested_at, clock_timestamp())
   where w.worker_uuid = p_worker_uuid;
  insert into tasker.audit_events (event, subject, requested_by, reason) values ('worker_drained', p_worker_uuid, p_requested_by, p_reason);
  perform tasker.move_worker(p_worker_uuid, 'worker_shutdown', jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by, 'manual', true));
  perform pg_notify('tasker_worker_state', jsonb_build_object('kind', 'worker_drained', 'worker_uuid', p_worker_uuid)::text);
  return tasker.end_request(p_request_id, tasker.worker_state(p_worker_uuid));
end
$$;
comment on function tasker.drain_worker(uuid, text, text, text) is
  'shutdown_worker for whoever wants the process itself to stop, to deploy or to mend its machine: it claims nothing more, finishes what it holds, and ends instead of registering again. Answers its state.';
