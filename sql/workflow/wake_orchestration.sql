create or replace function tasker.wake_orchestration(p_step_uuids uuid[], p_delay int default 0) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  -- one message for each namespace, so that a login bound to some can take theirs
  perform pgmq.send('orchestration_step_results',
                    jsonb_build_object('namespace', m.namespace, 'step_uuids', m.step_uuids), p_delay)
     from (select s.namespace, jsonb_agg(asked.step_uuid order by asked.position) as step_uuids
             from unnest(p_step_uuids) with ordinality as asked(step_uuid, position)
            cross join lateral (select s.namespace from tasker.workflow_steps s
                                 where s.workflow_step_uuid = asked.step_uuid limit 1) s
            group by s.namespace) m;
end
$$;
comment on function tasker.wake_orchestration(uuid[], int) is
  'Sends reported steps to the queue of orchestration, to be read after so many seconds.';
