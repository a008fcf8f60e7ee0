create or replace function tasker.allowed_events(
  p_kind text,
  p_uuid uuid,
  out event       text,
  out to_state    text,
  out fired_by    text,
  out guard       text,
  out guard_holds boolean
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_task_facts tasker.task_facts;
  v_step_facts tasker.step_facts;
begin
  if p_kind = 'task' then
    v_task_facts := tasker.task_facts_of(p_uuid);
    return query
    select r.event, r.to_state, r.fired_by, r.guard, tasker.task_guard_holds(r.guard, v_task_facts)
      from tasker.task_transitions c
      join tasker.lifecycle_transitions r on r.lifecycle = c.lifecycle and r.from_state = c.to_state
     where c.task_uuid = p_uuid and c.most_recent and tasker.may_see(c.namespace)
     order by r.ordinal;
  elsif p_kind = 'step' then
    select s.unmet_dependencies, s.attempts, s.max_attempts, s.retryable, s.claim_uuid is not null,
           (c.metadata ->> 'success')::boolean, c.metadata ->> 'category'
      into v_step_facts
      from tasker.workflow_steps s
      join tasker.workflow_step_transitions c on c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent
     where s.workflow_step_uuid = p_uuid;
    return query
    select r.event, r.to_state, r.fired_by, r.guard,
           -- what a report will say is not known yet
           coalesce(r.operation in ('report_success', 'report_failure'), false) or tasker.step_guard_holds(r.guard, v_step_facts)
      from tasker.workflow_step_transitions c
      join tasker.lifecycle_transitions r on r.lifecycle = c.lifecycle and r.from_state = c.to_state
     where c.workflow_step_uuid = p_uuid and c.most_recent and tasker.may_see(c.namespace)
     order by r.ordinal;
  else
    perform tasker.raise_error('TK400', format('%L is not a kind of entity', p_kind), jsonb_build_object('kind', p_kind),
                               'Ask for task or step.');
  end if;
end
$$;
comment on function tasker.allowed_events(text, uuid) is 'The events that the lifecycle has from the current state of a task or step, and whether their guards hold now.';
