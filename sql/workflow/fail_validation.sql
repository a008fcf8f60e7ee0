create or replace function tasker.fail_validation(
  p_task_uuid uuid,
  p_reason text,
  p_requested_by text,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'fail_validation', jsonb_build_array(p_task_uuid, p_reason, p_requested_by));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, tasker.command_task(p_task_uuid, 'fail_validation', p_reason, p_requested_by)));
end
$$;
comment on function tasker.fail_validation(uuid, text, text, text) is
  'The final validation of a task found it wanting: it ends as failed (seed 000: validation_failed).';
