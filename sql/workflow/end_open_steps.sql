create or replace function tasker.end_open_steps(p_task_uuid uuid, p_lifecycle text, p_to_state text, p_metadata jsonb) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  select tasker.cancel_open_steps(p_task_uuid, p_metadata, s.phase <> 'cancelled')
    from tasker.lifecycle_states s
   where s.lifecycle = p_lifecycle and s.state = p_to_state and s.is_terminal
$$;
comment on function tasker.end_open_steps(uuid, text, text, jsonb) is
  'Where a locked task has just been ended by hand: every open step of it ends too if it was cancelled, else those that are under way, which nobody would settle any more.';
