create or replace function tasker.claim_slots(p_step_uuids uuid[], p_now timestamptz, p_waiting boolean) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_without uuid[];
  v_at      uuid[];
begin
  if not exists (select from tasker.limits) or not exists (select from tasker.limits_of(p_step_uuids)) then
    return array[]::uuid[];
  end if;
  perform tasker.hold_limits();
  select coalesce(array_agg(t.workflow_step_uuid), '{}'), array_agg(t.limit_uuid) into v_without, v_at from tasker.take_slots(p_step_uuids, p_now) t;
  if p_waiting and cardinality(v_without) > 0 then
    perform tasker.wait_in_line(v_without, v_at, p_now);
  end if;
  return v_without;
end
$$;
comment on function tasker.claim_slots(uuid[], timestamptz, boolean) is
  'Takes slots for locked steps that are claimed now. Answers those that may not be, since a limit has none for them; p_waiting: they wait in its line. Steps without a limit cost a look.';
