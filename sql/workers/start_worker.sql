create or replace function tasker.start_worker(
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
  v_answer text := tasker.begin_request(p_request_id, 'start_worker', jsonb_build_array(p_worker_uuid, p_reason, p_requested_by));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, tasker.command_worker(p_worker_uuid, 'worker_allocate', p_reason, p_requested_by)));
end
$$;
comment on function tasker.start_worker(uuid, text, text, text) is 'Starts a supervised worker by hand (seed 003: start_task).';
