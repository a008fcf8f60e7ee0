create or replace function tasker.resume_task(
  p_task_uuid    uuid,
  p_reason       text,
  p_requested_by text,
  p_request_id   text default null
) returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_answer   text := tasker.begin_request(p_request_id, 'resume_task', jsonb_build_array(p_task_uuid, p_reason, p_requested_by));
  v_metadata jsonb := jsonb_build_object('reason', p_reason, 'requested_by', p_requested_by, 'manual', true, 'resumes', p_task_uuid);
  v_plan     uuid := tasker.uuid_generate_v7();
  v_task     tasker.tasks;
  v_state    tasker.lifecycle_states;
  v_other    uuid;
  v_open     uuid[];
begin
  if v_answer is not null then
    return v_answer::uuid;
  end if;
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  perform tasker.lock_task_or_refuse(p_task_uuid);
  select s.* into v_state
    from tasker.task_transitions c join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
   where c.task_uuid = p_task_uuid and c.most_recent;
  if not v_state.is_terminal or v_state.satisfies_dependencies then
    perform tasker.raise_error('TK409', format('task %s is %s: only a task that ended without success can be resumed', p_task_uuid, v_state.state),
                               jsonb_build_object('kind', 'task', 'uuid', p_task_uuid, 'state', v_state.state),
                               'Cancel it first, if it is to stop here and go on as a new task.');
  end if;
  perform tasker.refuse_compensated(p_task_uuid);
  select t.task_uuid into v_other from tasker.tasks t where t.resumes_task_uuid = p_task_uuid;
  if found then
    perform tasker.raise_error('TK409', format('task %s was resumed already, as task %s', p_task_uuid, v_other),
                               jsonb_build_object('kind', 'task', 'uuid', p_task_uuid, 'resumed_as', v_other),
                               'If that one ended too, resume that one.');
  end if;

  v_open := array(select s.workflow_step_uuid
                    from tasker.workflow_steps s
                   cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                                        where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
                    join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
                   where s.task_uuid = p_task_uuid and tasker.counts_as(x.counts_as, s.on_failure, s.left_out) <> 'satisfied'
                   order by s.ordinal);
  select * into v_task from tasker.tasks t where t.task_uuid = p_task_uuid;
  v_task.context := tasker.reveal(p_task_uuid, 'context', v_task.context);
  v_task.resumes_task_uuid := p_task_uuid;
  v_task.task_uuid := tasker.uuid_generate_v7();
  v_task.idempotency_key := null;  -- the keys name the first one
  v_task.unique_key := null;
  v_task.compensates_task_uuid := null;  -- it goes on with what that one undoes
  v_task.requested_by := p_requested_by;
  perform tasker.create_or_find_tasks(
    array[v_task], array[v_plan],
    array(select (s.named_step_uuid, v_plan, s.name, s.handler, s.ordinal,
                  array(select p.ordinal from tasker.workflow_step_edges e
                          join tasker.workflow_steps p on p.workflow_step_uuid = e.from_step_uuid
                         where e.to_step_uuid = s.workflow_step_uuid and p.workflow_step_uuid = any (v_open) order by p.ordinal),
                  s.arguments, s.retryable, s.max_attempts, s.base_delay, s.max_delay, s.jitter, s.timeout, s.tool, s.requires,
                  s.acceptance, s.on_failure, s.condition, s.skips_dependents, s.sensitive, s.sensitive_result, s.delay, s.options)::tasker.named_steps
            from tasker.workflow_steps s where s.workflow_step_uuid = any (v_open) order by s.ordinal),
    array[false]);
  -- what is done stays where it was done, and goes on to be what others depend on
  insert into tasker.workflow_step_edges (task_uuid, from_step_uuid, to_step_uuid)
  select n.task_uuid, e.from_step_uuid, n.workflow_step_uuid
    from tasker.workflow_steps n
    join tasker.workflow_steps o on o.task_uuid = p_task_uuid and o.name = n.name
    join tasker.workflow_step_edges e on e.to_step_uuid = o.workflow_step_uuid
   where n.task_uuid = v_task.task_uuid and e.from_step_uuid <> all (v_open);
  -- a map that has its elements waits for nothing else
  update tasker.workflow_step_edges e
     set waived = true
    from tasker.workflow_steps n, tasker.workflow_steps p
   where n.task_uuid = v_task.task_uuid and n.options ? 'elements' and e.to_step_uuid = n.workflow_step_uuid
     and p.workflow_step_uuid = e.from_step_uuid and (p.options ? 'element') is not true;
  update tasker.workflow_steps s
     set unmet_dependencies = tasker.unmet_dependencies_of(s.workflow_step_uuid)
   where s.task_uuid = v_task.task_uuid and s.options is not null;
  insert into tasker.step_checkpoints (workflow_step_uuid, task_uuid, namespace, checkpoint, attempt, saved_at)
  select n.workflow_step_uuid, n.task_uuid, n.namespace, k.checkpoint, k.attempt, k.saved_at
    from tasker.workflow_steps n
    join tasker.workflow_steps o on o.task_uuid = p_task_uuid and o.name = n.name
    join tasker.step_checkpoints k on k.workflow_step_uuid = o.workflow_step_uuid
   where n.task_uuid = v_task.task_uuid;
  insert into tasker.sensitive_values (entity_uuid, part, task_uuid, namespace, hidden)
  select n.workflow_step_uuid, v.part, n.task_uuid, n.namespace, v.hidden
    from tasker.workflow_steps n
    join tasker.workflow_steps o on o.task_uuid = p_task_uuid and o.name = n.name
    join tasker.sensitive_values v on v.entity_uuid = o.workflow_step_uuid and v.part in ('arguments', 'checkpoint')
   where n.task_uuid = v_task.task_uuid;
  perform tasker.drive_tasks(array[v_task.task_uuid], null, '{}', null, v_metadata);
  return tasker.end_request(p_request_id, v_task.task_uuid::text)::uuid;
end
$$;
comment on function tasker.resume_task(uuid, text, text, text) is
  'Goes on where a task ended without success (seed 002: CANCELLED can resume from its checkpoints): a new task with the unfinished steps only, which read the results of the finished ones and get the checkpoints that were saved. A task is resumed once. Answers the new task.';
