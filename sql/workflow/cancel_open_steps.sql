create or replace function tasker.cancel_open_steps(p_task_uuid uuid, p_metadata jsonb, p_only_under_way boolean default false) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_steps uuid[];
  v_moves tasker.step_move[];
begin
  perform tasker.lock_steps(array(select s.workflow_step_uuid from tasker.workflow_steps s where s.task_uuid = p_task_uuid));
  select array_agg(s.workflow_step_uuid)
    into v_steps
    from tasker.workflow_steps s
   cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                        where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
    join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
   where s.task_uuid = p_task_uuid and not x.is_terminal
     and (not p_only_under_way or x.counts_as <> 'pending');
  v_moves := array(select m from tasker.step_moves(v_steps, 'cancel_step', p_metadata) m);
  perform tasker.append_step_transitions(v_moves);
  perform tasker.notify_chunked('tasker_worker_state', array_agg(
            jsonb_build_object('kind', 'step_taken_away', 'worker_uuid', s.worker_uuid, 'uuid', s.workflow_step_uuid)))
     from unnest(v_moves) m
     join tasker.workflow_steps s on s.workflow_step_uuid = m.workflow_step_uuid and s.claim_uuid is not null;
  perform tasker.release_claims(array(select m.workflow_step_uuid from unnest(v_moves) m));
  return cardinality(v_moves);
end
$$;
comment on function tasker.cancel_open_steps(uuid, jsonb, boolean) is
  'Cancels the unfinished steps of a locked task, or only those that are under way or wait for a retry.';
