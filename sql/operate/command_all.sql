create or replace function tasker.command_all(
  p_command      text,
  p_filter       jsonb,
  p_reason       text,
  p_requested_by text,
  p_dry_run      boolean default true,
  p_limit        int default 1000,
  out task_uuid          uuid,
  out workflow_step_uuid uuid,
  out name               text,
  out before             text,
  out after              text,
  out code               text,
  out message            text
) returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  c_of_tasks constant text[] := array['cancel_task', 'give_up_task', 'resolve_task', 'reset_task', 'fail_validation'];
  c_of_steps constant text[] := array['cancel_step', 'skip_step', 'retry_step'];
  c_filters  constant text[] := array['namespace', 'name', 'state', 'phase', 'tags', 'correlation_id', 'requested_by', 'created_after', 'created_before'];
  v_filters  text[] := c_filters || case when p_command = any (c_of_steps) then array['step', 'step_state', 'handler'] else '{}' end;
  v_after    timestamptz := tasker.iso_timestamp(p_filter ->> 'created_after');
  v_before   timestamptz := tasker.iso_timestamp(p_filter ->> 'created_before');
  v_bound    text[] := tasker.bound_namespaces();
  v_found    jsonb;
  v_one      record;
  v_answer   record;
begin
  if p_command is null or p_command <> all (c_of_tasks || c_of_steps) then
    perform tasker.raise_error('TK400', format('%s is no command for many at once', coalesce(p_command, 'null')),
                               jsonb_build_object('command', p_command, 'commands', to_jsonb(c_of_tasks || c_of_steps)));
  end if;
  perform tasker.refuse_command_to_caller(p_command);
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  if coalesce(jsonb_typeof(p_filter), '') <> 'object' or p_filter = '{}'
     or exists (select from jsonb_each(p_filter) f where f.key <> all (v_filters)
                                                      or jsonb_typeof(f.value) <> case f.key when 'tags' then 'object' else 'string' end)
     or (p_filter ? 'created_after' and v_after is null) or (p_filter ? 'created_before' and v_before is null)
     or not tasker.is_uuid(p_filter ->> 'correlation_id') then
    perform tasker.raise_error('TK400', format('a filter for %s is an object with at least one of: %s', p_command, array_to_string(v_filters, ', ')),
                               jsonb_build_object('filter', p_filter),
                               'Times have an offset, as 2026-03-01T06:30:00Z; tags are an object that the tags of a task contain.');
  elsif p_limit is null or p_limit not between 1 and 10000 then
    perform tasker.raise_error('TK400', format('can''t command %s at once', coalesce(p_limit::text, 'null')), jsonb_build_object('limit', p_limit),
                               'Command 1 to 10,000 in one call, and call again.');
  end if;

  -- those for which the rules have this command in the state in which they are
  select jsonb_agg(f order by f.task_uuid, f.step_uuid)
    into v_found
    from (select t.task_uuid, s.workflow_step_uuid as step_uuid, coalesce(s.name, t.name) as name, coalesce(sc.to_state, c.to_state) as state
            from tasker.tasks t
            join tasker.task_transitions c on c.task_uuid = t.task_uuid and c.most_recent
            join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
            left join tasker.workflow_steps s on p_command = any (c_of_steps) and s.task_uuid = t.task_uuid
                                             and (not p_filter ? 'step' or s.name = p_filter ->> 'step')
                                             and (not p_filter ? 'handler' or s.handler = p_filter ->> 'handler')
            left join tasker.workflow_step_transitions sc on sc.workflow_step_uuid = s.workflow_step_uuid and sc.most_recent
           where (v_bound is null or t.namespace = any (v_bound))
             and (p_command = 'reset_task' or t.completed_at is null)
             and (not p_filter ? 'namespace' or t.namespace = p_filter ->> 'namespace')
             and (not p_filter ? 'name' or t.name = p_filter ->> 'name')
             and (not p_filter ? 'state' or c.to_state = p_filter ->> 'state')
             and (not p_filter ? 'phase' or x.phase = p_filter ->> 'phase')
             and (not p_filter ? 'tags' or t.tags @> (p_filter -> 'tags'))
             and (not p_filter ? 'correlation_id' or t.correlation_id = (p_filter ->> 'correlation_id')::uuid)
             and (not p_filter ? 'requested_by' or t.requested_by = p_filter ->> 'requested_by')
             and (v_after is null or t.created_at >= v_after) and (v_before is null or t.created_at < v_before)
             and (not p_filter ? 'step_state' or sc.to_state = p_filter ->> 'step_state')
             and exists (select from tasker.lifecycle_transitions r
                          where r.lifecycle = coalesce(sc.lifecycle, c.lifecycle) and r.from_state = coalesce(sc.to_state, c.to_state)
                            and r.operation in (p_command, case p_command when 'retry_step' then 'retry_due' end))
             and (p_command <> all (c_of_steps) or s.workflow_step_uuid is not null)
           order by t.task_uuid, s.workflow_step_uuid
           limit p_limit) f;
  if not p_dry_run then
    -- all in one order before the first is moved
    perform tasker.lock_work(array(
      with recursive family as (
        select f.task_uuid from jsonb_to_recordset(v_found) as f(task_uuid uuid)
         union
        select k.task_uuid from tasker.tasks k join family f on k.parent_task_uuid = f.task_uuid where p_command = 'cancel_task'
      )
      select f.task_uuid from family f));
  end if;

  for v_one in
    select f.* from jsonb_to_recordset(v_found) as f(task_uuid uuid, step_uuid uuid, name text, state text) order by f.task_uuid, f.step_uuid
  loop
    task_uuid := v_one.task_uuid;
    workflow_step_uuid := v_one.step_uuid;
    name := v_one.name;
    before := v_one.state;
    after := case when not p_dry_run then coalesce(tasker.step_state(v_one.step_uuid), tasker.task_state(v_one.task_uuid)) end;
    code := null;
    message := null;
    if not p_dry_run and after = before then  -- else it was moved by what was done before it: a child by its parent, a step by another
      v_answer := tasker.attempt_command(p_command, coalesce(v_one.step_uuid, v_one.task_uuid)::text, p_reason, p_requested_by);
      after := v_answer.state;
      code := v_answer.code;
      message := v_answer.message;
    end if;
    return next;
  end loop;
end
$$;
comment on function tasker.command_all(text, jsonb, text, text, boolean, int) is
  'One command for all tasks (or steps of tasks) that a filter finds and for which the rules have it: shown first, done unless p_dry_run, each with its log row, reason and name. What is refused meanwhile is told and stops nothing. Call again while it answers p_limit rows.';
