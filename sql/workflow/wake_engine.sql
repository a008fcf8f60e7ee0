create or replace function tasker.wake_engine(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_part record;
begin
  for v_part in
    select p.namespace, jsonb_agg(p.step_uuid order by p.place) as step_uuids, p.part
      from (select s.namespace, asked.step_uuid, asked.place,
                   -- no more in a message than one call runs
                   (row_number() over (partition by s.namespace order by asked.place) - 1) / 1000 as part
              from unnest(p_step_uuids) with ordinality as asked(step_uuid, place)
             cross join lateral (select s.namespace from tasker.workflow_steps s
                                  where s.workflow_step_uuid = asked.step_uuid limit 1) s) p
     group by p.namespace, p.part
  loop
    perform pgmq.send('orchestration_step_results', jsonb_build_object('namespace', v_part.namespace, 'engine_steps', v_part.step_uuids));
    if v_part.part = 0 then
      perform tasker.tell_engine(v_part.namespace);
    end if;
  end loop;
end
$$;
comment on function tasker.wake_engine(uuid[]) is
  'Sends steps that the engine runs itself to the queue of orchestration, where run_engine_steps takes them, and tells workers.';
