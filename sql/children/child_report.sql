create or replace function tasker.child_report(p_task_uuid uuid, p_reveal boolean) returns jsonb
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_task  record;
  v_error record;
begin
  select t.name, c.to_state as state, x.phase into v_task
    from tasker.tasks t
   cross join lateral (select c.lifecycle, c.to_state from tasker.task_transitions c where c.task_uuid = t.task_uuid and c.most_recent limit 1) c
    join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
   where t.task_uuid = p_task_uuid;
  if v_task.phase in ('succeeded', 'resolved') then
    -- what nobody depends on is what it was for
    return jsonb_build_object('success', true, 'child_task_uuid', p_task_uuid, 'result', (
      select coalesce(jsonb_object_agg(s.name, coalesce(case when s.sensitive_result and p_reveal then tasker.reveal(s.result_transition_uuid, 'result', r.metadata -> 'result')
                                                             when r.metadata ? 'result_payload' and not s.sensitive_result
                                                               then (select p.payload from tasker.step_payloads p where p.payload_uuid = s.result_transition_uuid)
                                                             else r.metadata -> 'result' end, 'null')), '{}')
        from tasker.workflow_steps s
        left join lateral (select r.metadata from tasker.workflow_step_transitions r
                            where r.workflow_step_transition_uuid = s.result_transition_uuid limit 1) r on true
       where s.task_uuid = p_task_uuid
         and not exists (select from tasker.workflow_step_edges e where e.from_step_uuid = s.workflow_step_uuid and e.task_uuid = p_task_uuid)));
  end if;
  select s.name, r.metadata -> 'error' as error, r.metadata ->> 'category' as category into v_error
    from tasker.workflow_steps s
   cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                        where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
    join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state and x.counts_as = 'failed'
   cross join lateral (select r.metadata from tasker.workflow_step_transitions r
                        where r.workflow_step_transition_uuid = s.result_transition_uuid and r.metadata -> 'success' = 'false' limit 1) r
   where s.task_uuid = p_task_uuid and tasker.counts_as(x.counts_as, s.on_failure, s.left_out) = 'failed'
   order by s.ordinal limit 1;
  return jsonb_build_object(
    'success', false, 'child_task_uuid', p_task_uuid,
    -- whoever cancelled it does not want another one
    'category', case when v_task.phase = 'cancelled' and v_error.name is null then 'permanent' else coalesce(v_error.category, 'unknown') end,
    'error', jsonb_strip_nulls(jsonb_build_object(
      'type', case when v_error.name is null then 'child_' || v_task.phase else 'child_failed' end, 'task_uuid', p_task_uuid, 'state', v_task.state,
      'step', v_error.name, 'error', v_error.error,
      'message', format('task %s (%s) ended as %s', p_task_uuid, v_task.name, v_task.state)
                 || coalesce(format(': step %s: %s', v_error.name, coalesce(v_error.error ->> 'message', v_error.error::text)), ''))));
end
$$;
comment on function tasker.child_report(uuid, boolean) is
  'What a task that has ended means for the step that ran it: the results of its last steps by name, or which of its steps failed and how.';
