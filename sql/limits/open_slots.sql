create or replace function tasker.open_slots(p_limit_uuid uuid, p_kind text, p_per interval, p_now timestamptz, p_most int) returns int
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
as $$
begin
  return (
    select count(*)::int
      from (select from tasker.limit_slots s
           where s.limit_uuid = p_limit_uuid and s.kind = p_kind and s.workflow_step_uuid is null
             and case p_kind when 'rate' then not tasker.lies_ahead(s.free_at, p_now, p_per) else s.free_at <= p_now end
           limit p_most) open);
end
$$;
comment on function tasker.open_slots(uuid, text, interval, timestamptz, int) is
  'How many slots of a limit nobody has now, counted up to p_most and without a lock.';
