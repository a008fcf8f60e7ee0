create or replace function tasker.move_worker(
  p_worker_uuid uuid,
  p_operation   text,
  p_metadata    jsonb default '{}'
) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_current tasker.worker_transitions;
  v_rule    tasker.lifecycle_transitions;
begin
  select * into v_current from tasker.worker_transitions t where t.worker_uuid = p_worker_uuid and t.most_recent;
  select * into v_rule
    from tasker.lifecycle_transitions r
   where r.lifecycle = v_current.lifecycle and r.from_state = v_current.to_state and r.operation = p_operation
     and tasker.worker_guard_holds(r.guard, row(tasker.held_steps(p_worker_uuid))::tasker.worker_facts)
   order by r.ordinal limit 1;
  if not found then
    return null;
  end if;
  with ended as (
    update tasker.worker_transitions t set most_recent = false, updated_at = clock_timestamp()
     where t.worker_uuid = p_worker_uuid and t.most_recent
    returning 1
  )
  insert into tasker.worker_transitions (worker_uuid, lifecycle, from_state, event, to_state, metadata, sort_key, most_recent)
  select p_worker_uuid, v_rule.lifecycle, v_rule.from_state, v_rule.event, v_rule.to_state, p_metadata, v_current.sort_key + 1, true
   where (select count(*) from ended) = 1;
  return v_rule.to_state;
end
$$;
comment on function tasker.move_worker(uuid, text, jsonb) is
  'Makes the move that this operation is in the lifecycle of a locked worker; null when there is none from here or its guard does not hold.';
