create or replace function tasker.wait_for_limits(p_step_uuids uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_now     timestamptz := tasker.clock();
  v_without uuid[];
  v_at      uuid[];
begin
  if not exists (select from tasker.limits) or not exists (select from tasker.limits_of(p_step_uuids)) then
    return array[]::uuid[];
  end if;
  perform tasker.hold_limits();
  -- The steps are not locked yet, so what they get is reserved for them: claim_slots makes use of it, or gives it back.
  select coalesce(array_agg(t.workflow_step_uuid), '{}'), array_agg(t.limit_uuid) into v_without, v_at
    from tasker.take_slots(p_step_uuids, v_now, v_now + interval '30 seconds') t;
  if cardinality(v_without) > 0 then
    perform tasker.wait_in_line(v_without, v_at, v_now);
  end if;
  return v_without;
end
$$;
comment on function tasker.wait_for_limits(uuid[]) is
  'Which of these steps, taken out of their queues, have to wait since a limit has no slot for them: they stand in its line and use up no attempt.';
