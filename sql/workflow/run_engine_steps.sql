create or replace function tasker.run_engine_steps(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_starting uuid[] := tasker.lock_for_claim(p_step_uuids);
  v_moves    tasker.step_move[];
  v_claim    uuid;
  v_space    text;
  v_steps    uuid[];
begin
  -- what was cancelled a moment ago makes no move, nor does a step of a task that has ended
  v_moves := array(select m from tasker.step_moves(p_step_uuids, 'claim', '{"engine": true}') m
                    cross join lateral (select from tasker.workflow_steps s
                                         where s.workflow_step_uuid = m.workflow_step_uuid and tasker.runs_in_engine(s.options) limit 1) ours
                    cross join lateral (select from tasker.tasks t
                                         where t.task_uuid = m.task_uuid and t.completed_at is null limit 1) goes_on);
  for v_space in select distinct m.namespace from unnest(v_moves) m order by 1 loop
    v_claim := tasker.uuid_generate_v7();
    v_steps := array(select m.workflow_step_uuid from unnest(v_moves) m where m.namespace = v_space);
    -- it ends by their timeout, if they have one, and by no lease
    perform tasker.hold_steps(v_steps, (null, v_claim, v_space, null, null, tasker.clock(), interval '1000 years')::tasker.claimant);
    perform tasker.append_step_transitions(
      array(select (m.transition_uuid, m.workflow_step_uuid, m.task_uuid, m.namespace, m.lifecycle, m.from_state, m.event, m.to_state,
                    m.sort_key, m.most_recent, m.metadata || jsonb_build_object('claim_uuid', v_claim))::tasker.step_move
              from unnest(v_moves) m where m.namespace = v_space));
  end loop;
  if cardinality(v_starting) > 0 then
    perform tasker.start_tasks(v_starting, array(select m.workflow_step_uuid from unnest(v_moves) m));
  end if;

  -- what each of them does: looked at by what is so now, so that a message seen twice does nothing twice
  v_steps := array(select s.workflow_step_uuid
                     from unnest(p_step_uuids) as asked(workflow_step_uuid)
                    cross join lateral (select * from tasker.workflow_steps s
                                         where s.workflow_step_uuid = asked.workflow_step_uuid
                                           and s.claim_uuid is not null and s.worker_uuid is null limit 1) s
                    order by s.workflow_step_uuid);
  perform tasker.report_by_engine(array_agg(s.workflow_step_uuid order by s.workflow_step_uuid),
                                  array_agg(case when s.options ? 'fails'
                                                 then jsonb_build_object('success', false, 'category', 'permanent', 'error', s.options -> 'fails')
                                                 when s.options ? 'unanswered'
                                                 then jsonb_build_object('success', false, 'category', 'permanent', 'error', s.options -> 'unanswered')
                                                 else tasker.gather(s.workflow_step_uuid) end
                                            order by s.workflow_step_uuid))
     from tasker.workflow_steps s
    where s.workflow_step_uuid = any (v_steps) and s.options ?| array['fails', 'unanswered', 'elements']
   having count(*) > 0;
  perform tasker.report_by_engine(array_agg(s.workflow_step_uuid order by s.workflow_step_uuid),
                                  array_agg(jsonb_build_object('success', true, 'result',
                                                               coalesce(tasker.event_input(s.workflow_step_uuid) -> (s.options #>> '{wait_for,event}'), 'null'))
                                            order by s.workflow_step_uuid))
     from tasker.workflow_steps s
    where s.workflow_step_uuid = any (v_steps) and s.options -> 'handler' = 'null' and s.options ? 'wait_for' and not s.options ?| array['fails', 'unanswered']
   having count(*) > 0;
  v_steps := array(select s.workflow_step_uuid from tasker.workflow_steps s
                    where s.workflow_step_uuid = any (v_steps) and s.options ? 'workflow' and s.claim_uuid is not null order by s.workflow_step_uuid);
  if cardinality(v_steps) > 0 then
    perform tasker.run_children(v_steps);
  end if;
end
$$;
comment on function tasker.run_engine_steps(uuid[]) is
  'The engine takes these queued steps as a worker would, in the log and under a claim, and does what their options say; of steps that it holds already it looks whether they can be reported by now. The caller holds the locks of their tasks.';
