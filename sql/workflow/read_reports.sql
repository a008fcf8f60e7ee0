create or replace function tasker.read_reports(p_results jsonb) returns tasker.step_report[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_reports tasker.step_report[];
begin
  if p_results is null or jsonb_typeof(p_results) <> 'array' then
    perform tasker.raise_error('TK400', 'results must be a JSON array',
                               jsonb_build_object('got', coalesce(jsonb_typeof(p_results), 'null')),
                               'Give an array of objects with step_uuid, claim_uuid and result.');
  elsif jsonb_array_length(p_results) > 10000 then
    perform tasker.raise_error('TK429', format('%s results in one call', jsonb_array_length(p_results)),
                               jsonb_build_object('limit', 10000), 'Report at most 10,000 results in one call.');
  end if;

  select array_agg((r.position, case when r.problem is null then (r.result ->> 'step_uuid')::uuid end,
                    case when r.problem is null then (r.result ->> 'claim_uuid')::uuid end,
                    r.success,
                    case when r.success
                         then jsonb_build_object('success', true, 'execution_time_ms', r.result -> 'execution_time_ms',
                                                 'result', r.result -> 'result')
                         else jsonb_build_object('success', false, 'execution_time_ms', r.result -> 'execution_time_ms',
                                                 'error', r.result -> 'error', 'category', r.category,
                                                 'retry_after', r.result -> 'retry_after') end
                    || case when r.result ? 'validation' then jsonb_build_object('validation', r.result -> 'validation') else '{}' end,
                    r.problem)::tasker.step_report order by r.position)
    into v_reports
    from (select e.position::int, e.result,
                 coalesce(e.result ->> 'success', 'true') <> 'false' as success,
                 coalesce(e.result ->> 'category', 'unknown') as category,
                 case when jsonb_typeof(e.result) <> 'object' then 'a result must be a JSON object'
                      when tasker.is_uuid(e.result ->> 'step_uuid') is not true then 'step_uuid must be a uuid'
                      when tasker.is_uuid(e.result ->> 'claim_uuid') is not true then 'claim_uuid must be a uuid'
                      when jsonb_typeof(e.result -> 'success') not in ('boolean', 'null') then 'success must be true or false'
                      when coalesce(e.result ->> 'category', 'unknown') not in ('transient', 'permanent', 'unknown')
                        then 'category must be transient, permanent or unknown'
                      when e.result ->> 'execution_time_ms' !~ '^[0-9]{1,15}$'
                        then 'execution_time_ms must be a whole number of milliseconds'
                      when e.result ->> 'retry_after' !~ '^[0-9]{1,9}([.][0-9]+)?$'
                        then 'retry_after must be a number of seconds'
                      when jsonb_typeof(e.result -> 'validation') <> 'object' then 'validation must be a JSON object'
                 end as problem
            from jsonb_array_elements(p_results) with ordinality as e(result, position)
          offset 0) r;  -- or the problem would be looked for wherever it is named

  return coalesce(v_reports, '{}');
end
$$;
comment on function tasker.read_reports(jsonb) is
  'Reads what workers report. A result that can''t be read keeps its place and says what is wrong with it; TK400 or TK429 for what is no list of results.';
