create or replace function tasker.after_step_moves(p_task_uuid uuid, p_moves tasker.step_move[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_moves tasker.step_move[];
begin
  perform tasker.tell_taken_away(array(select m.workflow_step_uuid from unnest(p_moves) m));
  perform tasker.release_claims(array(select m.workflow_step_uuid from unnest(p_moves) m));
  perform tasker.drop_waits(array(select m.workflow_step_uuid from unnest(p_moves) m));
  v_moves := p_moves || tasker.skip_dependents(p_moves);
  perform tasker.release_dependents(v_moves);
  perform tasker.wait_again(v_moves);
  -- a task that nobody started yet is not started by what happens to its steps
  if exists (select from tasker.task_transitions c
               join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
              where c.task_uuid = p_task_uuid and c.most_recent and s.phase <> 'pending') then
    perform tasker.drive_tasks(array[p_task_uuid], null, case when exists (select from tasker.settlements(v_moves) x where x.done + x.excused = 1)
                                                                 then array[p_task_uuid] else '{}' end);
  end if;
end
$$;
comment on function tasker.after_step_moves(uuid, tasker.step_move[]) is
  'What follows when steps were moved by hand: nobody holds them any more, their dependents may start, their task goes on.';
