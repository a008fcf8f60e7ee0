create or replace function tasker.shutdown_worker(
  p_worker_uuid uuid,
  p_reason text default null,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'shutdown_worker', jsonb_build_array(p_worker_uuid, p_reason));
begin
  if v_answer is not null then
    return v_answer;
  end if;
  perform tasker.lock_worker_or_refuse(p_worker_uuid);
  update tasker.workers w set shutdown_requested_at = coalesce(w.shutdown_requested_at, clock_timestamp()) where w.worker_uuid = p_worker_uuid;
  perform tasker.move_worker(p_worker_uuid, 'worker_shutdown', jsonb_strip_nulls(jsonb_build_object('reason', p_reason)));
  return tasker.end_request(p_request_id, tasker.worker_state(p_worker_uuid));
end
$$;
comment on function tasker.shutdown_worker(uuid, text, text) is
  'Ends a worker gracefully (seed 000): it claims nothing more, may report what it holds, and ends when it holds nothing. Answers its state.';
