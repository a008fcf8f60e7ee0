create or replace function tasker.append_task_transitions(
  p_moves        tasker.task_move[],
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

  select array_agg(f.task_uuid)
    into v_started
    from (select m.task_uuid from unnest(p_moves) m group by m.task_uuid having min(m.sort_key) > 1) f;

  with ended as (
    update tasker.task_transitions t
       set most_recent = false, updated_at = clock_timestamp()
     where t.task_uuid = any (v_started)
       and t.most_recent
    returning 1
  )
  insert into tasker.task_transitions
    (task_transition_uuid, task_uuid, namespace, lifecycle, to_state, from_state, event, processor_uuid, metadata, sort_key, most_recent)
  select tasker.uuid_at((select tasker.uuid_series()), m.ordinality), m.task_uuid, m.namespace, m.lifecycle, m.to_state, m.from_state, m.event, m.processor_uuid, m.metadata,
         m.sort_key, m.most_recent
    from unnest(p_moves) with ordinality as m
   where (select count(*) from ended) = coalesce(cardinality(v_started), 0);
  get diagnostics v_expected = row_count;
  if v_expected <> cardinality(p_moves) then
    perform tasker.raise_error('TK409', 'a task moved meanwhile', jsonb_build_object('tasks', to_jsonb(v_started)),
                               'Lock the tasks before reading their state.');
  end if;

  if p_update_tasks then  -- otherwise the caller does it, or a new task is inserted with these columns as they will be
    perform tasker.count_moves(null, p_moves);
  end if;
end
$$;
comment on function tasker.append_task_transitions(tasker.task_move[], boolean) is
  'The one door for tasks: ends the current row of each task, appends its moves, keeps started_at and completed_at. The caller holds the locks of the tasks.';
