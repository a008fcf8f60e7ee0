create or replace function tasker.wait_for_events(p_ready_steps uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_keyless uuid[];
  v_waiting uuid[];
begin
  with asked as materialized (
    select s.workflow_step_uuid, s.task_uuid, s.namespace, s.options #>> '{wait_for,event}' as event, k.key,
           (s.options #>> '{wait_for,timeout_seconds}')::double precision * interval '1 second' as timeout
      from unnest(p_ready_steps) as asked(workflow_step_uuid)
     cross join lateral (select * from tasker.workflow_steps s
                          where s.workflow_step_uuid = asked.workflow_step_uuid and s.options ? 'wait_for' and not s.options ? 'fails'
                            and s.unmet_dependencies <= 0 and s.handed_out_at is null limit 1) s
     cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state and x.phase = 'pending'
     cross join lateral (select from tasker.tasks t where t.task_uuid = s.task_uuid and t.completed_at is null limit 1) goes_on
     cross join lateral tasker.step_scope(s.workflow_step_uuid) over_what
     cross join lateral (select coalesce(s.options #> '{wait_for,value}',
                                         jsonb_path_query_first(over_what.scope, (s.options #>> '{wait_for,key}')::jsonpath, '{}', true)) as found) f
     cross join lateral (select case when jsonb_typeof(f.found) in ('string', 'number', 'boolean') and length(f.found #>> '{}') between 1 and 500
                                     then f.found #>> '{}' end as key) k
     -- what has waited once is tried again with what it got
     where not exists (select from tasker.event_waits w where w.workflow_step_uuid = s.workflow_step_uuid)
  ), kept as materialized (  -- what tick is about to forget stays for whoever gets it
    select a.workflow_step_uuid from asked a join tasker.events e on e.namespace = a.namespace and e.event = a.event and e.key = a.key
     where e.keep_until < tasker.clock() + interval '1 day' for key share of e
  ), waits as (
    insert into tasker.event_waits (workflow_step_uuid, task_uuid, namespace, event, key, due_at, ended_at)
    select a.workflow_step_uuid, a.task_uuid, a.namespace, a.event, a.key, tasker.clock() + a.timeout,
           (select clock_timestamp() from tasker.events e
             where e.namespace = a.namespace and e.event = a.event and e.key = a.key
               and (e.keep_until < tasker.clock() + interval '1 day') is not true
             union all
            select clock_timestamp() from kept k where k.workflow_step_uuid = a.workflow_step_uuid)
      from asked a
     where a.key is not null
    returning workflow_step_uuid, ended_at
  )
  select array(select a.workflow_step_uuid from asked a where a.key is null),
         array(select w.workflow_step_uuid from waits w where w.ended_at is null)
    into v_keyless, v_waiting;

  if cardinality(v_keyless) > 0 then
    update tasker.workflow_steps s
       set options = s.options || jsonb_build_object('fails', e.error, 'unanswered', e.error)
      from unnest(v_keyless) as k(workflow_step_uuid)
     cross join lateral (select jsonb_build_object('type', 'no_event_key', 'message',
                                                   format('it is to wait for event %s, and %s gives no text, number or boolean of 1 to 500 characters',
                                                          o.options #>> '{wait_for,event}', o.options #>> '{wait_for,key}')) as error
                           from tasker.workflow_steps o where o.workflow_step_uuid = k.workflow_step_uuid limit 1) e
     where s.workflow_step_uuid = k.workflow_step_uuid;
  end if;
  -- one that is sent back to work waits anew
  update tasker.workflow_steps s set options = s.options - 'unanswered'
   where s.workflow_step_uuid = any (p_ready_steps) and s.options ? 'unanswered' and s.workflow_step_uuid <> all (v_keyless)
     and exists (select from tasker.event_waits w where w.workflow_step_uuid = s.workflow_step_uuid);
  if cardinality(v_waiting) > 0 then
    update tasker.workflow_steps s set unmet_dependencies = s.unmet_dependencies + tasker.wait_weight(s.options) where s.workflow_step_uuid = any (v_waiting);
    insert into tasker.timers (due_at, kind, task_uuid, namespace, workflow_step_uuid, sort_key)
    select w.due_at, 'event_timeout', w.task_uuid, w.namespace, w.workflow_step_uuid, c.sort_key
      from unnest(v_waiting) as asked(workflow_step_uuid)
     cross join lateral (select * from tasker.event_waits w where w.workflow_step_uuid = asked.workflow_step_uuid limit 1) w
     cross join lateral (select c.sort_key from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = asked.workflow_step_uuid and c.most_recent limit 1) c
     where w.due_at is not null;
    -- somebody may be telling it right now, and neither sees the other yet
    perform tasker.look_for_events(m.namespace, m.events)
       from (select w.namespace, jsonb_agg(jsonb_build_array(w.event, w.key)) as events
               from (select w.namespace, w.event, w.key, (row_number() over (partition by w.namespace order by w.event, w.key) - 1) / 1000 as part
                       from (select distinct w.namespace, w.event, w.key
                               from unnest(v_waiting) as asked(workflow_step_uuid)
                              cross join lateral (select * from tasker.event_waits w
                                                   where w.workflow_step_uuid = asked.workflow_step_uuid limit 1) w) w) w
              group by w.namespace, w.part) m;
  end if;
  return array(select r from unnest(p_ready_steps) r where r <> all (v_waiting));
end
$$;
comment on function tasker.wait_for_events(uuid[]) is
  'Of these ready steps, those that are to wait for an event begin to: one more unmet dependency (wait_weight), and a timer if they do not wait for ever. Answers the others, with those whose event is there. The caller holds the locks of the tasks.';
