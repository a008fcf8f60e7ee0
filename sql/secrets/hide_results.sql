create or replace function tasker.hide_results(p_moves tasker.step_move[]) returns tasker.step_move[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  return array(
    select (m.transition_uuid, m.workflow_step_uuid, m.task_uuid, m.namespace, m.lifecycle, m.from_state, m.event, m.to_state, m.sort_key,
            m.most_recent,
            case when s.sensitive_result and coalesce(m.metadata -> 'result', 'null') <> 'null'
                 then m.metadata || jsonb_build_object('result', tasker.keep_sensitive(
                        m.transition_uuid, 'result', m.task_uuid, m.namespace, m.metadata -> 'result', '{""}'))
                 else m.metadata end)::tasker.step_move
      from unnest(p_moves) with ordinality as m
     cross join lateral (select s.sensitive_result from tasker.workflow_steps s
                          where s.workflow_step_uuid = m.workflow_step_uuid limit 1) s
     order by m.ordinality);
end
$$;
comment on function tasker.hide_results(tasker.step_move[]) is
  'The moves with a mark in place of results that their steps call sensitive; these are kept under the key of the log row.';
