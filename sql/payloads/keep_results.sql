create or replace function tasker.keep_results(p_moves tasker.step_move[]) returns tasker.step_move[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  return array(
    select (m.transition_uuid, m.workflow_step_uuid, m.task_uuid, m.namespace, m.lifecycle, m.from_state, m.event, m.to_state, m.sort_key,
            m.most_recent,
            case when coalesce(m.metadata -> 'result', 'null') = 'null' then m.metadata
                 else (m.metadata - 'result')
                      || tasker.keep_result((m.transition_uuid, m.workflow_step_uuid, m.task_uuid, m.namespace, m.lifecycle, m.from_state,
                                             m.event, m.to_state, m.sort_key, m.most_recent, null)::tasker.step_move,
                                            m.metadata -> 'result', s.sensitive_result) end)::tasker.step_move
      from unnest(p_moves) with ordinality as m
     cross join lateral (select s.sensitive_result from tasker.workflow_steps s
                          where s.workflow_step_uuid = m.workflow_step_uuid limit 1) s
     order by m.ordinality);
end
$$;
comment on function tasker.keep_results(tasker.step_move[]) is
  'The moves as the log may show them: results that are sensitive or big stand in tables of their own, under the key of the log row.';
