create or replace function tasker.handed_over(p_step_uuids uuid[]) returns setof tasker.claimed_step
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  return query
  select s.workflow_step_uuid, s.task_uuid, s.namespace, t.name, s.name, s.handler, s.attempts, s.max_attempts, s.claim_uuid,
         c.lease_expires_at, s.timeout,
         case when m.arguments is not null then m.arguments
              when s.sensitive is null then s.arguments
              else tasker.reveal(coalesce(s.named_step_uuid, s.workflow_step_uuid), 'arguments', s.arguments) end,
         case when t.sensitive is null then t.context else tasker.reveal(t.task_uuid, 'context', t.context) end #- coalesce(m.context_list, '{}'),
         case when m.inputs is not null then m.inputs
              when s.options ? 'wait_for' then i.inputs || coalesce(tasker.event_input(s.workflow_step_uuid), '{}') else i.inputs end,
         t.correlation_id, coalesce(s.tool, s.handler), s.acceptance,
         (select case when s.sensitive_result then tasker.reveal(s.workflow_step_uuid, 'checkpoint', k.checkpoint) else k.checkpoint end
            from tasker.step_checkpoints k where k.workflow_step_uuid = s.workflow_step_uuid),
         case when m.inputs is not null then m.payloads else i.payloads end
    from unnest(p_step_uuids) with ordinality as claimed(workflow_step_uuid, position)
   cross join lateral (select s.workflow_step_uuid, s.task_uuid, s.namespace, s.name, s.handler, s.attempts, s.max_attempts, s.claim_uuid, s.timeout,
                              s.sensitive, s.named_step_uuid, s.arguments, s.options, s.tool, s.acceptance, s.sensitive_result
                         from tasker.workflow_steps s
                        where s.workflow_step_uuid = claimed.workflow_step_uuid limit 1) s
   cross join lateral (select t.task_uuid, t.name, t.sensitive, t.context, t.correlation_id
                         from tasker.tasks t where t.task_uuid = s.task_uuid limit 1) t
   cross join lateral (select c.lease_expires_at from tasker.step_claims c where c.claim_uuid = s.claim_uuid limit 1) c
   cross join lateral tasker.step_inputs(s.workflow_step_uuid, false) i
    left join lateral tasker.step_inputs_of_element(case when s.options ? 'element' then s.workflow_step_uuid end) m on true
   order by claimed.position;
end
$$;
comment on function tasker.handed_over(uuid[]) is 'What a worker is told of the steps that it has just been given, in this order.';
