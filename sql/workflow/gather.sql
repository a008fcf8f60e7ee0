create or replace function tasker.gather(p_step_uuid uuid) returns jsonb
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_limit   int := (select n.payload_limit from tasker.workflow_steps s join tasker.task_namespaces n on n.namespace = s.namespace
                     where s.workflow_step_uuid = p_step_uuid);
  v_results jsonb[];
  v_bytes   bigint;
begin
  select array_agg(r.result order by r.place), sum(octet_length(r.result::text) + 2)
    into v_results, v_bytes
    from (select (d.options ->> 'element')::int as place,
                 coalesce(case when d.sensitive_result or t.metadata ? 'result_payload'
                               then tasker.whole_result(d.result_transition_uuid, d.sensitive_result, t.metadata)
                               else t.metadata -> 'result' end, 'null') as result
            from tasker.workflow_step_edges e
           cross join lateral (select d.options, d.result_transition_uuid, d.sensitive_result from tasker.workflow_steps d
                                where d.workflow_step_uuid = e.from_step_uuid and d.options ? 'element' limit 1) d
            left join lateral (select t.metadata from tasker.workflow_step_transitions t
                                where t.workflow_step_transition_uuid = d.result_transition_uuid limit 1) t on true
           where e.to_step_uuid = p_step_uuid and e.waived is null) r;
  -- with room for what stands beside the result in a report
  if v_bytes > v_limit - 1000 then
    return jsonb_build_object('success', false, 'category', 'permanent', 'error', jsonb_build_object(
      'type', 'results_too_large', 'message', format('the results of its %s elements have %s bytes together, and the namespace takes %s (set_payload_limits)',
                                                     cardinality(v_results), v_bytes, v_limit)));
  end if;
  return jsonb_build_object('success', true, 'result', to_jsonb(coalesce(v_results, '{}')));
end
$$;
comment on function tasker.gather(uuid) is
  'What the engine reports of a map step whose elements are done: the array of their results in order, null for one that was left out or failed and may.';
