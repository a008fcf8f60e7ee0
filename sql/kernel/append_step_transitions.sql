create or replace function tasker.append_step_transitions(
  p_moves        tasker.step_move[],
  p_update_tasks boolean default true
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_expected int;
  v_started  uuid[];
begin
  if coalesce(cardinality(p_moves), 0) = 0 then
    return;
  end if;

  -- the steps whose current row ends: those whose first move is not their creation
  select array_agg(f.workflow_step_uuid)
    into v_started
    from (select m.workflow_step_uuid from unnest(p_moves) m
           group by m.workflow_step_uuid having min(m.sort_key) > 1) f;

  with ended as (
    update tasker.workflow_step_transitions t
       set most_recent = false, updated_at = clock_timestamp()
     where t.workflow_step_uuid = any (v_started)
       and t.most_recent
    returning 1
  )
  insert into tasker.workflow_step_transitions
    (workflow_step_transition_uuid, workflow_step_uuid, task_uuid, namespace, lifecycle, to_state, from_state, event,
     metadata, sort_key, most_recent)
  select m.transition_uuid, m.workflow_step_uuid, m.task_uuid, m.namespace, m.lifecycle, m.to_state, m.from_state, m.event,
         m.metadata, m.sort_key, m.most_recent
    from unnest(p_moves) m
   where (select count(*) from ended) = coalesce(cardinality(v_started), 0);  -- the old rows end before the new ones stand
  get diagnostics v_expected = row_count;
  if v_expected <> cardinality(p_moves) then
    perform tasker.raise_error('TK409', 'a step moved meanwhile', jsonb_build_object('steps', to_jsonb(v_started)),
                               'Lock the steps before reading their state.');
  end if;

  if p_update_tasks then  -- otherwise the caller does it, or a new task is inserted with these columns as they will be
    perform tasker.count_moves(array(select p from tasker.progress_of(p_moves) p), null);
  end if;
end
$$;
comment on function tasker.append_step_transitions(tasker.step_move[], boolean) is
  'The one door for steps: ends the current row of each step, appends its moves and keeps the progress counters of its task. The caller holds the locks: the task if the counters change, then the steps by uuid.';
