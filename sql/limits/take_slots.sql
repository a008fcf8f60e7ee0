create or replace function tasker.take_slots(
  p_step_uuids     uuid[],
  p_now            timestamptz,
  p_reserved_until timestamptz default null,
  p_in_line        boolean default false,
  p_keep           uuid[] default '{}'
) returns table(workflow_step_uuid uuid, limit_uuid uuid)
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
  v_need    record;
  v_wanting uuid[];
  v_got     uuid[];
  v_without uuid[] := array[]::uuid[];
  v_at      uuid[] := array[]::uuid[];
  v_started uuid[];
begin
  -- Limit by limit, from the narrow to the wide: who may have none of one asks no other.
  for v_need in
    select n.limit_uuid, n.kind, n.per, array_agg(n.workflow_step_uuid order by n.position) as steps
      from tasker.limits_of(p_step_uuids) n
     group by n.breadth, n.limit_uuid, n.kind, n.per
     order by n.breadth, n.limit_uuid, n.kind
  loop
    v_wanting := array(select w.step from unnest(v_need.steps) with ordinality as w(step, place) where w.step <> all (v_without) order by w.place);
    -- what is reserved for a step is its own
    with own as materialized (
      select s.number from tasker.limit_slots s
       where s.limit_uuid = v_need.limit_uuid and s.kind = v_need.kind and s.workflow_step_uuid = any (v_wanting)
         for update skip locked
    ), kept as (
      update tasker.limit_slots s set reserved_until = p_reserved_until
        from own where s.limit_uuid = v_need.limit_uuid and s.kind = v_need.kind and s.number = own.number
      returning s.workflow_step_uuid
    )
    select coalesce(array_agg(k.workflow_step_uuid), '{}') into v_got from kept k;
    v_wanting := array(select w.step from unnest(v_wanting) with ordinality as w(step, place) where w.step <> all (v_got) order by w.place);
    continue when cardinality(v_wanting) = 0;
    -- whoever comes by itself does not go past those who wait
    if p_in_line or not exists (select from tasker.limit_waits w where w.limit_uuid = v_need.limit_uuid) then
      with open as materialized (
        select s.number from tasker.limit_slots s
         where s.limit_uuid = v_need.limit_uuid and s.kind = v_need.kind and s.workflow_step_uuid is null
           and case v_need.kind when 'rate' then not tasker.lies_ahead(s.free_at, p_now, v_need.per) else s.free_at <= p_now end
         order by s.free_at, s.number
         limit cardinality(v_wanting) for update skip locked
      ), placed as materialized (
        select o.number, row_number() over () as place from open o
      ), taken as (
        update tasker.limit_slots s set workflow_step_uuid = w.step, reserved_until = p_reserved_until
          from placed p join unnest(v_wanting) with ordinality as w(step, place) on w.place = p.place
         where s.limit_uuid = v_need.limit_uuid and s.kind = v_need.kind and s.number = p.number
        returning s.workflow_step_uuid
      )
      select coalesce(array_agg(t.workflow_step_uuid), '{}') into v_got from taken t;
      v_wanting := array(select w.step from unnest(v_wanting) with ordinality as w(step, place) where w.step <> all (v_got) order by w.place);
    end if;
    v_without := v_without || v_wanting;
    v_at := v_at || array_fill(v_need.limit_uuid, array[cardinality(v_wanting)]);
  end loop;

  if cardinality(v_without) > 0 then
    -- All or none. Only who came off badly too often keeps what it has while it waits for the rest, one step a limit at most:
    -- since everybody asks in the same order, no two wait for each other.
    update tasker.limit_slots s set workflow_step_uuid = null, reserved_until = null
     where s.workflow_step_uuid = any (v_without)
       and not (s.workflow_step_uuid = any (p_keep)
                and not exists (select from tasker.limit_slots o join tasker.limit_waits w on w.workflow_step_uuid = o.workflow_step_uuid
                                 where o.limit_uuid = s.limit_uuid and o.kind = s.kind and o.workflow_step_uuid <> s.workflow_step_uuid
                                   and o.reserved_until is not null));
  end if;
  if p_reserved_until is null then
    -- a start is over when it was made, and counts for as long as the rate says
    with started as (
      update tasker.limit_slots s set workflow_step_uuid = null, reserved_until = null, free_at = p_now + l.per
        from tasker.limits l
       where s.workflow_step_uuid = any (p_step_uuids) and s.workflow_step_uuid <> all (v_without)
         and s.kind = 'rate' and l.limit_uuid = s.limit_uuid
      returning s.limit_uuid
    )
    select array_agg(distinct s.limit_uuid) into v_started from started s;
    if v_started is not null then  -- only now it is known when the next may start
      perform tasker.watch_limits(v_started, p_now, 0);
    end if;
  end if;
  return query select w.step, w.at from unnest(v_without, v_at) as w(step, at);
end
$$;
comment on function tasker.take_slots(uuid[], timestamptz, timestamptz, boolean, uuid[]) is
  'Gives each of these steps a slot of every limit it is under, or none at all; returns those that got none, and the first limit without. p_reserved_until: for steps that are yet to be claimed. p_in_line: it is their turn; others do not go past those who wait. p_keep: these keep what they got.';
