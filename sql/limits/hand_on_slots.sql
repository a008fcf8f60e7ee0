create or replace function tasker.hand_on_slots(p_limit_uuids uuid[], p_now timestamptz, p_round int default 0) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  c_kept constant interval := interval '30 seconds';
  v_limit   tasker.limits;
  v_first   tasker.limit_waits[];
  v_steps   uuid[];
  v_without uuid[];
  v_at      uuid[];
  v_on      tasker.limit_waits[] := array[]::tasker.limit_waits[];
  v_lines   uuid[] := array[]::uuid[];
  v_open    int;
begin
  for v_limit in
    select l.* from tasker.limits l
     where l.limit_uuid = any (p_limit_uuids) and exists (select from tasker.limit_waits w where w.limit_uuid = l.limit_uuid)
     order by l.breadth, l.limit_uuid
  loop
    v_lines := v_lines || v_limit.limit_uuid;
    perform tasker.shrink_limit(v_limit.limit_uuid);
    -- what was reserved for a step that nobody claims goes to another
    with over as materialized (
      select s.kind, s.number from tasker.limit_slots s
       where s.limit_uuid = v_limit.limit_uuid and not tasker.lies_ahead(s.reserved_until, p_now, c_kept) for update skip locked
    )
    update tasker.limit_slots s set workflow_step_uuid = null, reserved_until = null
      from over o where s.limit_uuid = v_limit.limit_uuid and s.kind = o.kind and s.number = o.number;
    for v_turn in 1..50 loop
      v_open := least(
        case when v_limit.concurrency is not null then tasker.open_slots(v_limit.limit_uuid, 'concurrency', v_limit.per, p_now, 100) end,
        case when v_limit.rate is not null then tasker.open_slots(v_limit.limit_uuid, 'rate', v_limit.per, p_now, 100) end);
      exit when v_open = 0;
      select array_agg((f.*)::tasker.limit_waits order by f.place)
        into v_first
        from (select w.* from tasker.limit_waits w
               where w.limit_uuid = v_limit.limit_uuid
                 -- what no worker may take now keeps nobody out
                 and (select n.paused_at is null from tasker.task_namespaces n where n.namespace = w.namespace)
               order by w.place limit v_open for update skip locked) f;
      exit when v_first is null;
      v_steps := array(
        select f.workflow_step_uuid from unnest(v_first) f
         cross join lateral (select c.sort_key from tasker.workflow_step_transitions c
                              where c.workflow_step_uuid = f.workflow_step_uuid and c.most_recent limit 1) c
         where c.sort_key = f.sort_key order by f.place);
      select coalesce(array_agg(t.workflow_step_uuid), '{}'), coalesce(array_agg(t.limit_uuid), '{}')
        into v_without, v_at
        from tasker.take_slots(v_steps, p_now, p_now + c_kept, true,
                               array(select f.workflow_step_uuid from unnest(v_first) f where f.moves >= 3)) t;
      -- who lacks another limit waits for that one
      update tasker.limit_waits w set limit_uuid = x.at, moves = w.moves + 1
        from unnest(v_without, v_at) as x(step, at) join unnest(v_first) f on f.workflow_step_uuid = x.step
       where w.workflow_step_uuid = f.workflow_step_uuid and w.sort_key = f.sort_key and x.at <> v_limit.limit_uuid;
      v_lines := v_lines || v_at;
      -- the others stand in their queues again; or not at all, if they have moved on meanwhile
      delete from tasker.limit_waits w using unnest(v_first) f
       where w.workflow_step_uuid = f.workflow_step_uuid and w.sort_key = f.sort_key and f.workflow_step_uuid <> all (v_without);
      v_on := v_on || array(select f from unnest(v_first) f where f.workflow_step_uuid = any (v_steps) and f.workflow_step_uuid <> all (v_without) order by f.place);
      -- somebody else has what looked open
      exit when cardinality(v_without) = cardinality(v_first) and v_limit.limit_uuid = all (v_at);
    end loop;
  end loop;
  perform tasker.enqueue_steps(array(select f.workflow_step_uuid from unnest(v_on) with ordinality as f order by f.ordinality));
  perform tasker.watch_limits(array(select distinct l from unnest(v_lines) l), p_now, case when cardinality(v_on) > 0 then 0 else p_round end);
end
$$;
comment on function tasker.hand_on_slots(uuid[], timestamptz, int) is
  'Reserves what these limits have to give for those who wait longest, and puts them into their queues. Nobody is waited for; what somebody else has in hand is looked at again by a timer.';
