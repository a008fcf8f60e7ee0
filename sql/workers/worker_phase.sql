create or replace function tasker.worker_phase(p_worker_uuid uuid) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select s.phase
    from tasker.worker_transitions t
    join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state
   where t.worker_uuid = p_worker_uuid and t.most_recent
$$;
comment on function tasker.worker_phase(uuid) is 'The canonical phase of a worker''s current state.';
