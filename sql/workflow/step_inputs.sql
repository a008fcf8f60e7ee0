create or replace function tasker.step_inputs(p_step_uuid uuid, p_whole boolean default true, p_waived boolean default false, p_but text default null)
  returns table (inputs jsonb, payloads text[])
language sql
stable
begin atomic
  select coalesce(jsonb_object_agg(d.name, coalesce(
           case when r.metadata ? 'result_payload' and not p_whole then r.metadata -> 'result_payload'
                when d.sensitive_result then tasker.reveal(d.result_transition_uuid, 'result', r.metadata -> 'result')
                when r.metadata ? 'result_payload'
                  then (select p.payload from tasker.step_payloads p where p.payload_uuid = d.result_transition_uuid)
                else r.metadata -> 'result' end, 'null')), '{}'),
         array_agg(d.name order by d.name) filter (where r.metadata ? 'result_payload' and not p_whole)
    from tasker.workflow_step_edges e
   cross join lateral (select d.name, d.result_transition_uuid, d.sensitive_result from tasker.workflow_steps d
                        where d.workflow_step_uuid = e.from_step_uuid limit 1) d
    left join lateral (select r.metadata from tasker.workflow_step_transitions r
                        where r.workflow_step_transition_uuid = d.result_transition_uuid limit 1) r on true
   where e.to_step_uuid = p_step_uuid and (e.waived or not p_waived) and (p_but is null or d.name <> p_but);
end;
comment on function tasker.step_inputs(uuid, boolean, boolean, text) is
  'The result of each dependency of a step by name; null for one that was left out. Sensitive results are whole: for workers and conditions. p_whole false: of big ones payload_uuid, size and digest, and payloads names them. p_waived: only of dependencies that are waited for no more; p_but: of all but this one. One row.';
