create or replace function tasker.cancel_open_steps(p_task_uuid uuid, p_metadata jsonb, p_only_under_way boolean default false) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_steps uuid[];
  v_moves tasker.step_move[];
  v_settled tasker.step_move[];
  v_undo  boolean := exists (select from tasker.workflow_steps s where s.task_uuid = p_task_uuid and s.options ? 'undo');
begin
  perform tasker.lock_steps(array(select s.workflow_step_uuid from tasker.workflow_steps s where s.task_uuid = p_task_uuid));
  select array_agg(s.workflow_step_uuid)
    into v_steps
    from tasker.workflow_steps s
   cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                        where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
    join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
   where s.task_uuid = p_task_uuid and not x.is_terminal
     and (not p_only_under_way or x.counts_as <> 'pending'
          -- only a task that may be started again keeps what was not started
          or not exists (select from tasker.tasks k join tasker.lifecycle_transitions r on r.lifecycle = k.lifecycle
                          where k.task_uuid = p_task_uuid and r.operation = 'reset_task'));
  -- what was reported before the end was done, and is undone with the rest
  if v_undo then
    v_settled := array(select m from tasker.step_moves(v_steps, 'settle_success', p_metadata) m
                         join tasker.lifecycle_states x on x.lifecycle = m.lifecycle and x.state = m.to_state and x.satisfies_dependencies)
                 -- validated by nobody, since there is nothing to check
                 || array(select m from tasker.step_moves(array(select s.workflow_step_uuid from tasker.workflow_steps s
                                                                 where s.workflow_step_uuid = any (v_steps) and s.acceptance = '[]'),
                                                          'validation_pass', p_metadata) m);
    perform tasker.append_step_transitions(v_settled);
    v_steps := array(select s from unnest(v_steps) s where s not in (select m.workflow_step_uuid from unnest(v_settled) m));
  end if;
  v_moves := array(select m from tasker.step_moves(v_steps, 'cancel_step', p_metadata) m);
  perform tasker.append_step_transitions(v_moves);
  perform tasker.release_dependents(v_settled || v_moves);  -- optional ones hold nobody up
  perform tasker.tell_taken_away(v_steps);
  -- where a lifecycle has no cancelled state (seed 001) they stay as they are, but nobody holds them any more
  perform tasker.release_claims(v_steps);
  perform tasker.drop_waits(array(select w.workflow_step_uuid from tasker.event_waits w where w.task_uuid = p_task_uuid and w.ended_at is null));
  if v_undo then
    perform tasker.compensate_task(p_task_uuid);
  end if;
  return cardinality(v_moves);
end
$$;
comment on function tasker.cancel_open_steps(uuid, jsonb, boolean) is
  'Cancels the unfinished steps of a locked task, or only those that are under way or wait for a retry. Then what its steps did is undone, where they say so.';
