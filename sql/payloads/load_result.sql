create or replace function tasker.load_result(p_uuid uuid, p_claim_uuid uuid default null) returns jsonb
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_of      uuid := coalesce((select s.result_transition_uuid from tasker.workflow_steps s where s.workflow_step_uuid = p_uuid), p_uuid);
  v_row     record;
  v_payload jsonb;
begin
  select t.workflow_step_transition_uuid, t.workflow_step_uuid, t.metadata, s.sensitive_result
    into v_row
    from tasker.workflow_step_transitions t
    join tasker.workflow_steps s on s.workflow_step_uuid = t.workflow_step_uuid
   where t.workflow_step_transition_uuid = v_of and tasker.may_see(t.namespace);
  if found and v_row.sensitive_result then
    if p_claim_uuid is null or v_row.metadata -> 'result' is null then
      return v_row.metadata -> 'result';  -- the mark
    elsif not exists (select from tasker.claimed_steps(array[p_claim_uuid]) h
                        join tasker.workflow_step_edges e
                          on e.to_step_uuid = h.workflow_step_uuid
                             -- an element reads what its map step depends on
                          or e.waived and e.to_step_uuid in (select m.to_step_uuid from tasker.workflow_step_edges m
                                                               join tasker.workflow_steps s on s.workflow_step_uuid = m.from_step_uuid and s.options ? 'element'
                                                              where m.from_step_uuid = h.workflow_step_uuid)
                       where e.from_step_uuid = v_row.workflow_step_uuid) then
      perform tasker.raise_error('TK412', format('no step that depends on %s is held under this claim', v_row.workflow_step_uuid),
                                 jsonb_build_object('step_uuid', v_row.workflow_step_uuid, 'claim_uuid', p_claim_uuid),
                                 'A sensitive result is for the worker that holds a step with it among its inputs.');
    end if;
    return tasker.reveal(v_of, 'result', v_row.metadata -> 'result');
  elsif found and not v_row.metadata ? 'result_payload' then
    return v_row.metadata -> 'result';
  end if;

  select p.payload into v_payload from tasker.step_payloads p where p.payload_uuid = v_of and tasker.may_see(p.namespace);
  if not found and not exists (select from tasker.workflow_steps s where s.workflow_step_uuid = p_uuid and tasker.may_see(s.namespace)) then
    perform tasker.raise_error('TK404', format('there is no step and no result %s', coalesce(p_uuid::text, 'null')), jsonb_build_object('uuid', p_uuid),
                               'Give the key of a step, or the payload_uuid of a result. What was archived is found by payload_uuid alone.');
  end if;
  return v_payload;
end
$$;
comment on function tasker.load_result(uuid, uuid) is
  'A result as it was reported, big or not; null for a step that has none. p_uuid: a step, for its latest result, or the payload_uuid that stands in place of a big one in log, views and inputs. A sensitive one comes whole with the claim of a step that depends on it, else as its mark.';
