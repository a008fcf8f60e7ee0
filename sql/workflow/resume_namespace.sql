create or replace function tasker.resume_namespace(
  p_namespace    text,
  p_reason       text,
  p_requested_by text,
  p_request_id   text default null
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'resume_namespace', jsonb_build_array(p_namespace, p_reason, p_requested_by));
begin
  if v_answer is not null then
    return;
  end if;
  perform tasker.set_namespace_pause(p_namespace, false, p_reason, p_requested_by);
  perform tasker.signal_work(array[p_namespace]);
  perform tasker.end_request(p_request_id, '');
end
$$;
comment on function tasker.resume_namespace(text, text, text, text) is
  'Hands out the steps of a paused namespace again, and tells its workers.';
