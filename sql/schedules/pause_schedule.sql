create or replace function tasker.pause_schedule(
  p_schedule     text,
  p_reason       text,
  p_requested_by text,
  p_namespace    text default 'default',
  p_request_id   text default null
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'pause_schedule', jsonb_build_array(p_schedule, p_reason, p_requested_by, p_namespace));
begin
  if v_answer is not null then
    return;
  end if;
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.lock_schedule_or_refuse(p_schedule, p_namespace);
  update tasker.schedules s set paused_at = coalesce(s.paused_at, clock_timestamp()), next_due_at = null
   where s.namespace = p_namespace and s.schedule = p_schedule;
  insert into tasker.audit_events (event, subject, namespace, requested_by, reason)
  values ('schedule_paused', p_schedule, p_namespace, p_requested_by, p_reason);
  perform tasker.end_request(p_request_id, '');
  return;
end
$$;
comment on function tasker.pause_schedule(text, text, text, text, text) is
  'Lets the times of a schedule pass until resume_schedule. Tasks that were created go on.';
