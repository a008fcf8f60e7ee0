create or replace function tasker.attempt_command(
  p_command      text,
  p_target       text,
  p_reason       text,
  p_requested_by text,
  p_request_id   text default null,
  out state   text,
  out code    text,
  out message text,
  out detail  jsonb,
  out hint    text
) returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  c_commands constant text[] := array[
    'cancel_task', 'give_up_task', 'resolve_task', 'reset_task', 'resume_task', 'pass_validation', 'fail_validation', 'cancel_step', 'skip_step', 'retry_step', 'reset_step',
    'resolve_step', 'start_worker', 'pause_worker', 'resume_worker', 'terminate_worker', 'reset_breaker'];
  v_uuid   uuid;
  v_detail text;
begin
  if p_command is null or p_command <> all (c_commands) then
    perform tasker.raise_error('TK400', format('there is no command %s', coalesce(p_command, 'null')),
                               jsonb_build_object('command', p_command, 'commands', to_jsonb(c_commands)));
  end if;
  if p_command <> 'reset_breaker' then
    v_uuid := p_target::uuid;
  end if;
  begin
    state := case p_command
               when 'cancel_task' then tasker.cancel_task(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'give_up_task' then tasker.give_up_task(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'resolve_task' then tasker.resolve_task(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'reset_task' then tasker.reset_task(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'resume_task' then tasker.resume_task(v_uuid, p_reason, p_requested_by, p_request_id)::text
               when 'pass_validation' then tasker.pass_validation(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'fail_validation' then tasker.fail_validation(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'cancel_step' then tasker.cancel_step(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'skip_step' then tasker.skip_step(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'retry_step' then tasker.retry_step(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'reset_step' then tasker.reset_step(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'resolve_step' then tasker.resolve_step(v_uuid, p_reason, p_requested_by, null, p_request_id)
               when 'start_worker' then tasker.start_worker(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'pause_worker' then tasker.pause_worker(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'resume_worker' then tasker.resume_worker(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'terminate_worker' then tasker.terminate_worker(v_uuid, p_reason, p_requested_by, p_request_id)
               when 'reset_breaker' then tasker.reset_breaker(p_target, p_reason, p_requested_by, p_request_id)
             end;
  exception
  -- the codes of error_catalogue; anything else is no refusal
  when insufficient_privilege or sqlstate 'TK400' or sqlstate 'TK403' or sqlstate 'TK404' or sqlstate 'TK409' or sqlstate 'TK412'
    or sqlstate 'TK422' or sqlstate 'TK423' or sqlstate 'TK429' or sqlstate 'TK503' then
    get stacked diagnostics code = returned_sqlstate, message = message_text, v_detail = pg_exception_detail, hint = pg_exception_hint;
    detail := case when v_detail like '{%' then v_detail::jsonb else '{}' end;
    perform tasker.record_refusal(p_command, v_uuid, code, message,
                                  detail || jsonb_build_object('target', p_target, 'reason', p_reason, 'requested_by', p_requested_by));
  end;
end
$$;
comment on function tasker.attempt_command(text, text, text, text, text) is
  'A command of a person that leaves a trace when it is refused: answers the new state (of resume_task the new task), or the code and message of the refusal, which is kept in rejected_transitions. Runs with the rights of the caller; a missing right (42501) is kept as well. The commands themselves raise, and what raises leaves no row.';
