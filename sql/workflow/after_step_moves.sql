create or replace function tasker.after_step_moves(p_task_uuid uuid, p_moves tasker.step_move[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.release_claims(array(select m.workflow_step_uuid from unnest(p_moves) m));
  perform tasker.release_dependents(tasker.satisfied_by(p_moves));
  perform tasker.drive_tasks(array[p_task_uuid]);
end
$$;
comment on function tasker.after_step_moves(uuid, tasker.step_move[]) is
  'What follows when steps were moved by hand: nobody holds them any more, their dependents may start, their task goes on.';
