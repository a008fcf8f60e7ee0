create or replace function tasker.pass_validation(
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
  v_answer   text := tasker.begin_request(p_request_id, 'pass_validation', jsonb_build_array(p_task_uuid, p_reason, p_requested_by));
  v_metadata jsonb := jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by, 'manual', true);
  v_current  tasker.task_transitions;
  v_facts    tasker.task_facts;
  v_moves    tasker.task_move[];
begin
  if v_answer is not null then
    return v_answer;
  end if;
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.lock_task_or_refuse(p_task_uuid);
  select * into v_current from tasker.task_transitions t where t.task_uuid = p_task_uuid and t.most_recent;
  if not exists (select from tasker.lifecycle_transitions r
                  where r.lifecycle = v_current.lifecycle and r.from_state = v_current.to_state and r.operation = 'advance' and r.guard = 'validated') then
    perform tasker.refuse_transition('task', p_task_uuid, v_current.lifecycle, v_current.to_state, 'pass_validation');
  end if;

  v_facts := tasker.task_facts_of(p_task_uuid);
  v_facts.awaits_validation := false;  -- this is the verdict
  v_moves := array(
    select (p_task_uuid, v_current.namespace, v_current.lifecycle, p.from_state, p.event, p.to_state, v_current.sort_key + p.hop,
            p.hop = max(p.hop) over (), null, v_metadata)::tasker.task_move
      from tasker.task_path(v_current.lifecycle, v_current.to_state, v_facts) p
     order by p.hop);
  if cardinality(v_moves) = 0 then
    perform tasker.raise_error(
      'TK422', format('task %s is %s: its validation can''t pass while steps are not satisfied', p_task_uuid, v_current.to_state),
      jsonb_build_object('kind', 'task', 'uuid', p_task_uuid, 'guard', 'validated', 'facts', to_jsonb(v_facts)),
      'See explain_task for what it waits for.');
  end if;
  perform tasker.append_task_transitions(v_moves);
  perform tasker.end_open_steps(p_task_uuid, v_current.lifecycle, (v_moves[cardinality(v_moves)]).to_state, v_metadata);
  return tasker.end_request(p_request_id, (v_moves[cardinality(v_moves)]).to_state);
end
$$;
comment on function tasker.pass_validation(uuid, text, text, text) is
  'The final validation of a task passed: it goes on as if nobody had been waited for (seed 000: validation_passed).';
