create or replace function tasker.step_moves(
  p_step_uuids uuid[],
  p_operation  text,
  p_metadata   jsonb default null
) returns setof tasker.step_move
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_series text := tasker.uuid_series();
begin
  return query
  select tasker.uuid_at(v_series, asked.position), s.workflow_step_uuid, s.task_uuid, s.namespace, s.lifecycle,
         c.to_state, r.event, r.to_state, c.sort_key + 1, true, p_metadata
    from unnest(p_step_uuids) with ordinality as asked(workflow_step_uuid, position)
   cross join lateral (select s.workflow_step_uuid, s.task_uuid, s.namespace, s.lifecycle, s.unmet_dependencies, s.attempts, s.max_attempts,
                              s.retryable, s.claim_uuid
                         from tasker.workflow_steps s
                        where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
   cross join lateral (select t.to_state, t.sort_key, t.metadata
                         from tasker.workflow_step_transitions t
                        where t.workflow_step_uuid = s.workflow_step_uuid and t.most_recent limit 1) c
   cross join lateral (select r.event, r.to_state
                         from tasker.lifecycle_transitions r
                        where r.lifecycle = s.lifecycle and r.from_state = c.to_state and r.operation = p_operation
                          and tasker.step_guard_holds(
                                r.guard, row(s.unmet_dependencies, s.attempts, s.max_attempts, s.retryable,
                                             s.claim_uuid is not null, (c.metadata ->> 'success')::boolean,
                                             c.metadata ->> 'category')::tasker.step_facts)
                        order by r.ordinal limit 1) r;
end
$$;
comment on function tasker.step_moves(uuid[], text, jsonb) is
  'Which move would this operation make for each of these steps? Steps for which the lifecycle has none, or whose guard does not hold, are left out. The caller holds the locks.';
