create or replace function tasker.awaited_steps(p_messages jsonb[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  c_most  constant int := 1000;  -- tasks that one call moves
  v_steps uuid[];
begin
  v_steps := array(
    select w.workflow_step_uuid
      from (select distinct m ->> 'namespace' as namespace, e.told ->> 0 as event, e.told ->> 1 as key
              from unnest(p_messages) m
             cross join lateral jsonb_array_elements(m -> 'events') as e(told)
             where jsonb_typeof(m -> 'events') = 'array') told
     cross join lateral (select e.namespace, e.event, e.key from tasker.events e
                          where e.namespace = told.namespace and e.event = told.event and e.key = told.key limit 1) e
     cross join lateral (select w.workflow_step_uuid from tasker.event_waits w
                          where w.namespace = e.namespace and w.event = e.event and w.key = e.key and w.ended_at is null
                          limit c_most + 1) w
     limit c_most + 1);
  if cardinality(v_steps) > c_most then
    perform tasker.look_for_events(m ->> 'namespace', m -> 'events') from unnest(p_messages) m where jsonb_typeof(m -> 'events') = 'array';
  end if;
  return v_steps[:c_most];
end
$$;
comment on function tasker.awaited_steps(jsonb[]) is
  'Which steps wait for an event that these messages name and that is there: so many as one call moves. The others are looked for again.';
