create or replace function tasker.resume_schedule(
  p_schedule     text,
  p_reason       text,
  p_requested_by text,
  p_namespace    text default 'default',
  p_request_id   text default null
) returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'resume_schedule', jsonb_build_array(p_schedule, p_reason, p_requested_by, p_namespace));
  v_next   timestamptz;
begin
  if v_answer is not null then
    return v_answer::timestamptz;
  end if;
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.lock_schedule_or_refuse(p_schedule, p_namespace);
  update tasker.schedules s
     set paused_at = null,
         next_due_at = case when s.paused_at is null then s.next_due_at
                            else (select t from tasker.walk_cron(s.cron, s.time_zone, tasker.clock(), null, 1) t) end
   where s.namespace = p_namespace and s.schedule = p_schedule
  returning s.next_due_at into v_next;
  insert into tasker.audit_events (event, subject, namespace, requested_by, reason)
  values ('schedule_resumed', p_schedule, p_namespace, p_requested_by, p_reason);
  perform tasker.end_request(p_request_id, v_next::text);
  return v_next;
end
$$;
comment on function tasker.resume_schedule(text, text, text, text, text) is
  'Lets a paused schedule go on with its next time, which is answered. Times that passed meanwhile are not caught up with: see backfill_schedule.';
