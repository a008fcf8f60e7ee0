create or replace function tasker.follow_moves(p_moves tasker.step_move[], p_operation text, p_metadata jsonb default null) returns setof tasker.step_move
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
  select tasker.uuid_at(v_series, m.ordinality), m.workflow_step_uuid, m.task_uuid, m.namespace, m.lifecycle,
         m.to_state, r.event, r.to_state, m.sort_key + 1, true,
         coalesce(p_metadata, jsonb_build_object('attempt', m.metadata -> 'attempt'))
    from unnest(p_moves) with ordinality as m
   cross join lateral (select s.unmet_dependencies, s.attempts, s.max_attempts, s.retryable
                         from tasker.workflow_steps s
                        where s.workflow_step_uuid = m.workflow_step_uuid limit 1) s
   cross join lateral (select r.event, r.to_state
                         from tasker.lifecycle_transitions r
                        where r.lifecycle = m.lifecycle and r.from_state = m.to_state and r.operation = p_operation
                          and tasker.step_guard_holds(
                                r.guard, row(s.unmet_dependencies, s.attempts, s.max_attempts, s.retryable, false,
                                             (m.metadata ->> 'success')::boolean, m.metadata ->> 'category')::tasker.step_facts)
                        order by r.ordinal limit 1) r;
end
$$;
comment on function tasker.follow_moves(tasker.step_move[], text, jsonb) is
  'step_moves from where moves lead that are not in the log yet, so that both go there in one statement. Nobody holds the steps then. Without metadata they name the attempt that they belong to.';
