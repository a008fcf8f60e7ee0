create or replace function tasker.free_slots(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_limits uuid[];
begin
  if not exists (select from tasker.limits)
     or not exists (select from tasker.limit_slots s where s.workflow_step_uuid = any (p_step_uuids)
                    union all
                    select from tasker.limit_waits w where w.workflow_step_uuid = any (p_step_uuids)) then
    return;
  end if;
  perform tasker.hold_limits();
  -- A slot on which a step runs is touched by whoever holds the step. What is only reserved may be in other hands: it is given on
  -- when its time is over, and so is a place in the line that nobody needs any more.
  with held as materialized (
    select s.limit_uuid, s.kind, s.number from tasker.limit_slots s
     where s.workflow_step_uuid = any (p_step_uuids) and s.reserved_until is null
     order by s.limit_uuid, s.kind, s.number for update
  ), reserved as materialized (
    select s.limit_uuid, s.kind, s.number from tasker.limit_slots s
     where s.workflow_step_uuid = any (p_step_uuids) and s.reserved_until is not null for update skip locked
  ), freed as (
    update tasker.limit_slots s
       set workflow_step_uuid = null, reserved_until = null,
           -- one too many since the limit was lowered, maybe: shrink_limit tells
           free_at = case when s.kind = 'concurrency' and exists (select from tasker.limit_slots x join tasker.limits l on l.limit_uuid = x.limit_uuid
                                                                   where x.limit_uuid = s.limit_uuid and x.kind = s.kind and x.number > l.concurrency)
                          then 'infinity' else s.free_at end
      from (table held union all table reserved) h where s.limit_uuid = h.limit_uuid and s.kind = h.kind and s.number = h.number
    returning s.limit_uuid
  )
  select array_agg(distinct f.limit_uuid) into v_limits from freed f;
  with left_line as materialized (
    select w.workflow_step_uuid, w.sort_key from tasker.limit_waits w where w.workflow_step_uuid = any (p_step_uuids) for update skip locked
  )
  delete from tasker.limit_waits w using left_line l where w.workflow_step_uuid = l.workflow_step_uuid and w.sort_key = l.sort_key;
  if v_limits is not null then
    perform tasker.hand_on_slots(v_limits, tasker.clock());
  end if;
end
$$;
comment on function tasker.free_slots(uuid[]) is
  'These steps are held by nobody any more: their slots go to those who wait. Without limits it costs one look.';
