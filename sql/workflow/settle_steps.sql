create or replace function tasker.settle_steps(
  p_step_uuids     uuid[],
  p_processor_uuid uuid default null
) returns tasker.drive_counts
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_tasks    uuid[];
  v_foreign  uuid[];
  v_success  tasker.step_move[];
  v_failure  tasker.step_move[];
  v_ready    uuid[];
  v_steps    uuid[] := p_step_uuids;
  v_counts   tasker.drive_counts;
begin
  select array_agg(distinct s.task_uuid)
    into v_tasks
    from unnest(p_step_uuids) as asked(workflow_step_uuid)
   cross join lateral (select s.task_uuid from tasker.workflow_steps s
                        where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s;
  perform tasker.lock_tasks(v_tasks);

  -- results of tasks that a living processor owns are left to it
  v_foreign := tasker.foreign_owned(v_tasks, p_processor_uuid);
  if cardinality(v_foreign) > 0 then
    v_tasks := array(select t from unnest(v_tasks) t where t <> all (v_foreign));
    v_steps := array(select s.workflow_step_uuid from tasker.workflow_steps s
                      where s.workflow_step_uuid = any (p_step_uuids) and s.task_uuid <> all (v_foreign));
    perform pgmq.send('orchestration_step_results',
                      jsonb_build_object('step_uuids', (select jsonb_agg(s) from unnest(p_step_uuids) s
                                                         where s <> all (v_steps))), 1);
  end if;

  if exists (select from tasker.processors) then
    perform tasker.take_over_tasks(v_tasks, p_processor_uuid);
  end if;

  perform tasker.lock_steps(v_steps);
  v_success := array(select m from tasker.step_moves(v_steps, 'settle_success') m);
  v_failure := tasker.schedule_retries(array(select m from tasker.step_moves(v_steps, 'settle_failure') m));
  perform tasker.append_step_transitions(v_success || v_failure);
  perform tasker.record_step_results(v_success || v_failure);
  v_ready := tasker.release_dependents(tasker.satisfied_by(v_success || v_failure));

  v_counts := tasker.drive_tasks(
    v_tasks, v_ready,
    array(select distinct m.task_uuid from unnest(v_success || v_failure) m
            join tasker.lifecycle_states s on s.lifecycle = m.lifecycle and s.state = m.to_state and s.is_terminal), p_processor_uuid);
  v_counts.steps_settled := coalesce(cardinality(v_success), 0) + coalesce(cardinality(v_failure), 0);
  return v_counts;
end
$$;
comment on function tasker.settle_steps(uuid[], uuid) is
  'Accepts reported results: completes or fails the steps, releases their dependents and drives their tasks, each task locked once for all its results.';
