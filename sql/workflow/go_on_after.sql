create or replace function tasker.go_on_after(
  p_tasks          uuid[],
  p_done           tasker.step_move[],
  p_processor_uuid uuid default null,
  p_uncounted      tasker.step_move[] default null,
  p_claimant       tasker.claimant default null
) returns tasker.drive_counts
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_counts tasker.drive_counts;
begin
  v_counts := tasker.drive_tasks(
    p_tasks, tasker.release_dependents(p_done),
    array(select distinct m.task_uuid from unnest(p_done) m
            join tasker.lifecycle_states s on s.lifecycle = m.lifecycle and s.state = m.to_state and s.counts_as in ('satisfied', 'failed')),
    p_processor_uuid, null, p_uncounted, p_claimant);
  perform tasker.record_step_results(p_done);  -- breakers are locked last
  return v_counts;
end
$$;
comment on function tasker.go_on_after(uuid[], tasker.step_move[], uuid, tasker.step_move[], tasker.claimant) is
  'What follows when results of locked tasks were settled: dependents are released, tasks driven, breakers told.';
