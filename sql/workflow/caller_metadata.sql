create or replace function tasker.caller_metadata(p_metadata jsonb, p_fired_by text) returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_problem text;
begin
  p_metadata := coalesce(nullif(p_metadata, 'null'), '{}');
  if jsonb_typeof(p_metadata) <> 'object' then
    perform tasker.raise_error('TK400', 'metadata must be a JSON object', jsonb_build_object('got', jsonb_typeof(p_metadata)));
  end if;
  v_problem := case
    when jsonb_typeof(p_metadata -> 'success') not in ('boolean', 'null') then 'success must be true or false'
    when coalesce(p_metadata ->> 'category', 'unknown') not in ('transient', 'permanent', 'unknown')
      then 'category must be transient, permanent or unknown'
    when coalesce(p_metadata ->> 'execution_time_ms', '0') !~ '^[0-9]{1,15}$'
      then 'execution_time_ms must be a whole number of milliseconds'
    when coalesce(p_metadata ->> 'retry_after', '0') !~ '^[0-9]{1,9}([.][0-9]+)?$' then 'retry_after must be a number of seconds'
  end;
  if v_problem is not null then
    perform tasker.raise_error('TK400', v_problem, (select jsonb_object_agg(m.key, m.value) from jsonb_each(p_metadata) m
                                                    where m.key in ('success', 'category', 'execution_time_ms', 'retry_after')));
  end if;
  if p_fired_by = 'command' then
    perform tasker.refuse_without_reason(p_metadata ->> 'reason', p_metadata ->> 'requested_by');
  end if;
  -- what the engine knows can't be claimed
  return p_metadata - array['worker_uuid', 'claim_uuid', 'correlation_id', 'attempt', 'attempts_reset', 'manual', 'lease_expired',
                            'delay_seconds', 'next_retry_at', 'taken_over_from', 'ready_steps', 'result_payload']
         || case when p_fired_by = 'command' then '{"manual": true}' else '{}' end::jsonb;
end
$$;
comment on function tasker.caller_metadata(jsonb, text) is
  'Metadata that a caller of a generic door gave, fit for the log: what the engine reads from it is well formed, what only the engine writes is taken out, and a command has a reason and a name.';
