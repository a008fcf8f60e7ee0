create or replace function tasker.worker_state(p_worker_uuid uuid) returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.to_state from tasker.worker_transitions t where t.worker_uuid = p_worker_uuid and t.most_recent and tasker.may_see_worker(p_worker_uuid)
$$;
comment on function tasker.worker_state(uuid) is 'The current state of a worker: its most recent transition.';
