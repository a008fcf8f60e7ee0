create or replace function tasker.held_steps(p_worker_uuid uuid) returns int
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select coalesce(sum(c.open_steps), 0)::int from tasker.step_claims c where c.worker_uuid = p_worker_uuid
$$;
comment on function tasker.held_steps(uuid) is 'How many steps a worker holds.';
