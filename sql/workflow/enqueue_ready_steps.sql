create or replace function tasker.enqueue_ready_steps(p_task_uuid uuid) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_moves tasker.step_move[];
begin
  v_moves := array(select m from tasker.hand_outs(
    array(select s.workflow_step_uuid from tasker.workflow_steps s
           where s.task_uuid = p_task_uuid and s.unmet_dependencies <= 0 order by s.ordinal)) m);
  perform tasker.hand_out_steps(v_moves);
  return cardinality(v_moves);
end
$$;
comment on function tasker.enqueue_ready_steps(uuid) is 'Queues the ready steps of one locked task that was moved by hand.';
