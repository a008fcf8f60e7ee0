create or replace function tasker.cancel_task(
  p_task_uuid uuid,
  p_reason text,
  p_requested_by text,
  p_request_id text default null
) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'cancel_task', jsonb_build_array(p_task_uuid, p_reason, p_requested_by));
  v_state text;
  v_child uuid;
  v_bound text[] := tasker.bound_namespaces();
begin
  if v_answer is not null then
    return v_answer;
  end if;
  -- the whole family in one order, whatever its shape
  perform tasker.lock_work(array(
    with recursive family as (
      select t.task_uuid from tasker.tasks t where t.task_uuid = p_task_uuid and (v_bound is null or t.namespace = any (v_bound))
       union
      select t.task_uuid from tasker.tasks t join family f on t.parent_task_uuid = f.task_uuid
       where (v_bound is null or t.namespace = any (v_bound)) and t.compensates_task_uuid is null  -- what was begun is undone all the same
         and not exists (select from tasker.child_tasks c where c.task_uuid = t.task_uuid and c.on_parent_cancel = 'leave')
    )
    select f.task_uuid from family f));
  v_state := tasker.command_task(p_task_uuid, 'cancel_task', p_reason, p_requested_by);
  for v_child in
    select t.task_uuid from tasker.tasks t
      join tasker.task_transitions c on c.task_uuid = t.task_uuid and c.most_recent
      join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
     where t.parent_task_uuid = p_task_uuid and not s.is_terminal and t.compensates_task_uuid is null and (v_bound is null or t.namespace = any (v_bound))
       and not exists (select from tasker.child_tasks l where l.task_uuid = t.task_uuid and l.on_parent_cancel = 'leave')
     order by t.task_uuid
  loop
    perform tasker.cancel_task(v_child, format('its parent %s was cancelled: %s', p_task_uuid, p_reason), p_requested_by);
  end loop;
  return tasker.end_request(p_request_id, v_state);
end
$$;
comment on function tasker.cancel_task(uuid, text, text, text) is
  'Cancels a task, its unfinished steps and its children at once, but those that are to be left; a bound login those that it sees. Running work is told and fenced off: its reports are refused.';
