create or replace function tasker.pause_worker(
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
  v_answer text := tasker.begin_request(p_request_id, 'pause_worker', jsonb_build_array(p_worker_uuid, p_reason, p_requested_by));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, tasker.command_worker(p_worker_uuid, 'worker_pause', p_reason, p_requested_by)));
end
$$;
comment on function tasker.pause_worker(uuid, text, text, text) is 'Suspends a worker: it claims nothing until it is resumed (seed 003).';
