create or replace function tasker.step_scope(p_step_uuid uuid) returns table (scope jsonb)
language sql
stable
begin atomic
  select jsonb_build_object('context', case when t.sensitive is null then t.context else tasker.reveal(t.task_uuid, 'context', t.context) end,
                            'inputs', i.inputs)
    from tasker.workflow_steps s
    join tasker.tasks t on t.task_uuid = s.task_uuid
   -- p_whole said: while an upgrade runs, the function of an earlier version that takes the key alone is still there
   cross join lateral tasker.step_inputs(s.workflow_step_uuid, p_whole => true) i
   where s.workflow_step_uuid = p_step_uuid;
end;
comment on function tasker.step_scope(uuid) is
  'What the paths of a step (condition, for_each, keys of events, context of a workflow) are read over: {"context", "inputs"}, sensitive and big values whole. One row.';
