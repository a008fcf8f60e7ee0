create or replace function tasker.settle_steps(
  p_step_uuids     uuid[],
  p_processor_uuid uuid default null,
  p_done           tasker.step_move[] default '{}'
) returns tasker.drive_counts
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_tasks    uuid[];
  v_foreign  uuid[];
  v_moves    tasker.step_move[];
  v_done     tasker.step_move[] := p_done;
  v_rounds   int := 0;
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
    perform tasker.wake_orchestration(array(select s from unnest(p_step_uuids) s where s <> all (v_steps)), 1);
  end if;

  if exists (select from tasker.processors) then
    perform tasker.take_over_tasks(v_tasks, p_processor_uuid);
  end if;

  perform tasker.lock_steps(v_steps);
  -- a failure may take two moves: it timed out and has no retries left, say
  v_moves := array(select m from tasker.step_moves(v_steps, 'settle_success') m)
             || array(select m from tasker.step_moves(v_steps, 'settle_failure') m)
             -- validated by nobody, since there is nothing to check
             || array(select m from tasker.step_moves(array(select s.workflow_step_uuid from tasker.workflow_steps s
                                                             where s.workflow_step_uuid = any (v_steps) and s.acceptance = '[]'), 'validation_pass') m);
  while cardinality(v_moves) > 0 and v_rounds < 5 loop
    v_moves := tasker.schedule_retries(v_moves);
    perform tasker.append_step_transitions(v_moves);
    v_done := v_done || v_moves;
    v_rounds := v_rounds + 1;
    v_moves := array(select m from tasker.step_moves(array(select m.workflow_step_uuid from unnest(v_moves) m), 'settle_failure') m);
  end loop;
  v_done := v_done || tasker.skip_dependents(v_done);
  v_counts := tasker.go_on_after(v_tasks, v_done, p_processor_uuid);
  v_counts.steps_settled := (select count(distinct m.workflow_step_uuid) from unnest(v_done) m)::int;
  return v_counts;
end
$$;
comment on function tasker.settle_steps(uuid[], uuid, tasker.step_move[]) is
  'Accepts reported results: completes or fails the steps, releases their dependents and drives their tasks, each task locked once for all its results. p_done: moves of these steps that the report itself made.';
