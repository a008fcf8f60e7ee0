create or replace function tasker.give_up_task(
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
  v_answer text := tasker.begin_request(p_request_id, 'give_up_task', jsonb_build_array(p_task_uuid, p_reason, p_requested_by));
begin
  return coalesce(v_answer, tasker.end_request(p_request_id, tasker.command_task(p_task_uuid, 'give_up_task', p_reason, p_requested_by)));
end
$$;
comment on function tasker.give_up_task(uuid, text, text, text) is 'Gives a blocked task up: it ends in failure. reset_task can start it again.';
