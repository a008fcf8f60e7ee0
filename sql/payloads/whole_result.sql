create or replace function tasker.whole_result(p_transition_uuid uuid, p_sensitive boolean, p_metadata jsonb) returns jsonb
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select case when p_sensitive then tasker.reveal(p_transition_uuid, 'result', p_metadata -> 'result')
              when p_metadata ? 'result_payload' then (select p.payload from tasker.step_payloads p where p.payload_uuid = p_transition_uuid)
              else p_metadata -> 'result' end
$$;
comment on function tasker.whole_result(uuid, boolean, jsonb) is 'The result that a log row tells of, wherever it stands.';
