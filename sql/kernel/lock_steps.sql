create or replace function tasker.lock_steps(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  perform from tasker.workflow_steps s where s.workflow_step_uuid = any (p_step_uuids)
    order by s.workflow_step_uuid for no key update;
end
$$;
comment on function tasker.lock_steps(uuid[]) is
  'Locks steps in the fixed order, after their tasks. State is read in a later statement, so that it is the state under the lock.';
