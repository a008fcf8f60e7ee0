create or replace function tasker.attempt_command(
  p_command      text,
  p_target       text,
  p_reason       text,
  p_requested_by text,
  p_request_id   text default null,
  p_arguments    jsonb default '{}',
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
  c_of_uuids constant text[] := array[
    'cancel_task', 'give_up_task', 'resolve_task', 'reset_task', 'resume_task', 'pass_validation', 'fail_validation', 'hold_task', 'release_task',
    'cancel_step', 'skip_step', 'retry_step', 'reset_step', 'resolve_step', 'start_worker', 'pause_worker', 'resume_worker', 'drain_worker', 'terminate_worker'];
  c_commands constant text[] := c_of_uuids || array[
    'pause_schedule', 'resume_schedule', 'remove_schedule', 'pause_namespace', 'resume_namespace', 'reset_breaker', 'bind_login', 'unbind_login'];
  v_takes text := case p_command when 'resolve_step' then 'result' when 'bind_login' then 'namespaces'
                                 when 'pause_schedule' then 'namespace' when 'resume_schedule' then 'namespace' when 'remove_schedule' then 'namespace' end;
  v_namespaces jsonb := p_arguments -> 'namespaces';
  v_namespace text := coalesce(p_arguments ->> 'namespace', 'default');
  v_uuid uuid;
  v_detail text;
begin
  if p_command is null or p_command <> all (c_commands) then
    perform tasker.raise_error('TK400', format('there is no command %s', coalesce(p_command, 'null')),
                               jsonb_build_object('command', p_command, 'commands', to_jsonb(c_commands)));
  end if;
  begin
    if p_command = any (c_of_uuids) then
      if p_target is null or p_target !~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then
        perform tasker.raise_error('TK400', format('%s takes a uuid, not %s', p_command, coalesce(quote_literal(p_target), 'null')),
                                   jsonb_build_object('command', p_command, 'target', p_target), 'Name the task, step or worker by its key.');
      end if;
      v_uuid := p_target::uuid;
    end if;
    if jsonb_typeof(p_arguments) is distinct from 'object' or exists (select from jsonb_object_keys(p_arguments) k where k is distinct from v_takes) then
      perform tasker.raise_error('TK400', format('%s does not take these arguments', p_command),
                                 jsonb_build_object('command', p_command, 'arguments', p_arguments),
                                 case when v_takes is null then 'It takes none.' else format('It takes an object with %s.', v_takes) end);
    elsif p_command = 'bind_login' and coalesce(jsonb_typeof(v_namespaces), 'missing') not in ('array', 'null')
       or jsonb_path_exists(v_namespaces, '$[*] ? (@.type() != "string" && @.type() != "null")') then
      perform tasker.raise_error('TK400', 'bind_login takes a list of namespaces', jsonb_build_object('command', p_command, 'arguments', p_arguments),
                                 'Give {"namespaces": [...]}; null binds to all of them, [] to none.');
    end if;
    -- A statement each: the rights of all functions in a statement are asked for before it runs.
    case p_command
      when 'cancel_task' then state := tasker.cancel_task(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'give_up_task' then state := tasker.give_up_task(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'resolve_task' then state := tasker.resolve_task(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'reset_task' then state := tasker.reset_task(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'resume_task' then state := tasker.resume_task(v_uuid, p_reason, p_requested_by, p_request_id)::text;
      when 'pass_validation' then state := tasker.pass_validation(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'fail_validation' then state := tasker.fail_validation(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'hold_task' then
        perform tasker.hold_task(v_uuid, p_reason, p_requested_by);
        state := 'held';
      when 'release_task' then state := case when tasker.release_task(v_uuid, p_reason, p_requested_by) then 'released' else 'not held' end;
      when 'cancel_step' then state := tasker.cancel_step(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'skip_step' then state := tasker.skip_step(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'retry_step' then state := tasker.retry_step(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'reset_step' then state := tasker.reset_step(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'resolve_step' then state := tasker.resolve_step(v_uuid, p_reason, p_requested_by, p_arguments -> 'result', p_request_id);
      when 'start_worker' then state := tasker.start_worker(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'pause_worker' then state := tasker.pause_worker(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'resume_worker' then state := tasker.resume_worker(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'drain_worker' then state := tasker.drain_worker(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'terminate_worker' then state := tasker.terminate_worker(v_uuid, p_reason, p_requested_by, p_request_id);
      when 'pause_schedule' then
        perform tasker.pause_schedule(p_target, p_reason, p_requested_by, v_namespace, p_request_id);
        state := 'paused';
      when 'resume_schedule' then
        state := to_char(tasker.resume_schedule(p_target, p_reason, p_requested_by, v_namespace, p_request_id) at time zone 'UTC',
                         'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"');
      when 'remove_schedule' then
        perform tasker.remove_schedule(p_target, p_reason, p_requested_by, v_namespace, p_request_id);
        state := 'removed';
      when 'pause_namespace' then
        perform tasker.pause_namespace(p_target, p_reason, p_requested_by, p_request_id);
        state := 'paused';
      when 'resume_namespace' then
        perform tasker.resume_namespace(p_target, p_reason, p_requested_by, p_request_id);
        state := 'resumed';
      when 'reset_breaker' then state := tasker.reset_breaker(p_target, p_reason, p_requested_by, p_request_id);
      when 'bind_login' then
        perform tasker.bind_login(p_target, case jsonb_typeof(v_namespaces) when 'array' then array(select jsonb_array_elements_text(v_namespaces)) end,
                                  p_reason, p_requested_by);
        state := 'bound';
      when 'unbind_login' then
        perform tasker.unbind_login(p_target, p_reason, p_requested_by);
        state := 'unbound';
    end case;
  exception
  -- the codes of error_catalogue; anything else is no refusal
  when insufficient_privilege or sqlstate 'TK400' or sqlstate 'TK403' or sqlstate 'TK404' or sqlstate 'TK409' or sqlstate 'TK412' or sqlstate 'TK413'
    or sqlstate 'TK422' or sqlstate 'TK423' or sqlstate 'TK429' or sqlstate 'TK503' then
    get stacked diagnostics code = returned_sqlstate, message = message_text, v_detail = pg_exception_detail, hint = pg_exception_hint;
    detail := case when v_detail like '{%' then v_detail::jsonb else '{}' end;
    perform tasker.record_refusal(p_command, v_uuid, code, message,
                                  detail || jsonb_build_object('target', p_target, 'reason', p_reason, 'requested_by', p_requested_by));
  end;
end
$$;
comment on function tasker.attempt_command(text, text, text, text, text, jsonb) is
  'A command of a person that leaves a trace when it is refused: answers the new state (of resume_task the new task, of resume_schedule its next time), or the code and message of the refusal, which is kept in rejected_transitions. p_arguments: {"result": ...} of resolve_step, {"namespaces": [...]} of bind_login, {"namespace": ...} of a schedule (default). Runs with the rights of the caller; a missing right (42501) is kept as well. The commands themselves raise, and what raises leaves no row.';
