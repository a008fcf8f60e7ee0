create or replace function tasker.append_task_event(
  p_task_uuid      uuid,
  p_event          text,
  p_to_state       text,
  p_processor_uuid uuid,
  p_metadata       jsonb
) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  select tasker.append_task_transitions(array[(c.task_uuid, c.namespace, c.lifecycle, c.to_state, p_event, p_to_state,
                                               c.sort_key + 1, true, p_processor_uuid, p_metadata)::tasker.task_move])
    from tasker.task_transitions c
   where c.task_uuid = p_task_uuid and c.most_recent
$$;
comment on function tasker.append_task_event(uuid, text, text, uuid, jsonb) is 'Appends one transition to a task that the caller has locked and judged.';
