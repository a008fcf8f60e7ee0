create or replace function tasker.keep_result(p_move tasker.step_move, p_result jsonb, p_sensitive boolean) returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_text   text;
  v_sha256 text;
  v_told   jsonb := '{}'::jsonb;
begin
  if tasker.is_large(p_result) then
    v_text := p_result::text;
    if octet_length(v_text) > (select n.payload_threshold from tasker.task_namespaces n where n.namespace = p_move.namespace) then
      if not p_sensitive then
        v_sha256 := encode(sha256(convert_to(v_text, 'UTF8')), 'hex');
        insert into tasker.step_payloads (payload_uuid, workflow_step_uuid, task_uuid, namespace, size, sha256, payload)
        values (p_move.transition_uuid, p_move.workflow_step_uuid, p_move.task_uuid, p_move.namespace, octet_length(v_text), v_sha256, p_result);
      end if;
      v_told := jsonb_build_object('result_payload', jsonb_strip_nulls(jsonb_build_object(
                  'payload_uuid', p_move.transition_uuid, 'size', octet_length(v_text), 'sha256', v_sha256)));
    end if;
  end if;
  if p_sensitive then
    return v_told || jsonb_build_object('result', tasker.keep_sensitive(
             p_move.transition_uuid, 'result', p_move.task_uuid, p_move.namespace, p_result, '{""}'));
  end if;
  return case when v_told = '{}' then jsonb_build_object('result', p_result) else v_told end;
end
$$;
comment on function tasker.keep_result(tasker.step_move, jsonb, boolean) is
  'What the log says of a result: the result, or a mark in place of a sensitive one, or size and digest of a big one; of one that is both, mark and size. What is not in the log is kept under the key of the log row.';
