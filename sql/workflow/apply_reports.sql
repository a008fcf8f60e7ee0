create or replace function tasker.apply_reports(
  p_reports  tasker.step_report[],
  p_settle   boolean default false,
  p_claimant tasker.claimant default null
) returns setof tasker.step_outcome
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_steps    uuid[];
  v_moves    tasker.step_move[];
  v_claims   uuid[];
  v_counts   int[];
  v_codes    text[];      -- by position; null: taken
  v_messages text[];
  v_states   text[];
  v_refused  int;
  v_apart    boolean;             -- some results may have to stand in a table of their own
  v_direct   tasker.step_move[];  -- settled by the report itself
  v_bound    text[] := tasker.bound_namespaces();
  v_kept     uuid[];              -- validated by the worker, who keeps its claim
  v_held     uuid[];
  v_decides  boolean;             -- among them are decisions
  v_ahead    uuid[];              -- tasks that their reports move
  v_tasks    uuid[];
  v_free     uuid[];              -- tasks whose results are settled here
  v_settled  tasker.step_move[];
  v_series   text := tasker.uuid_series();
begin
  -- A claim that is not current now never will be again: late reports wait for nobody and nobody waits for them.
  select coalesce(array_agg(distinct r.step_uuid), '{}'), bool_or(held.decides), array_agg(distinct held.task_uuid) filter (where l.settles_at_report),
         array_agg(distinct held.task_uuid)
    into v_held, v_decides, v_ahead, v_tasks
    from unnest(p_reports) r
   cross join lateral (select s.task_uuid, s.lifecycle, coalesce(s.options ? 'creates', false) as decides from tasker.workflow_steps s
                        where s.workflow_step_uuid = r.step_uuid
                          and s.claim_uuid = r.claim_uuid
                          and (v_bound is null or s.namespace = any (v_bound)) limit 1) held
    join tasker.lifecycles l on l.lifecycle = held.lifecycle;
  if v_decides then
    p_reports := tasker.judge_decisions(p_reports);
  end if;
  v_free := tasker.lock_for_report(v_held, v_ahead, case when p_settle then v_tasks end);

  with judged as materialized (
    select r.position, r.step_uuid, r.metadata, s.task_uuid, s.namespace, s.lifecycle, s.claim_uuid, s.worker_uuid,
           s.attempts, s.sensitive_result, c.to_state as state, c.sort_key, rule.event, rule.to_state,
           case when r.problem is not null then 'TK400'
                when s.workflow_step_uuid is null then 'TK404'
                when r.claim_uuid is null then 'TK412'
                -- the answer to the first report was lost and the worker repeats it: say what is, change nothing
                when s.claim_uuid is distinct from r.claim_uuid
                  then case when (select (p.metadata ->> 'claim_uuid')::uuid from tasker.workflow_step_transitions p
                                   where p.workflow_step_transition_uuid = s.result_transition_uuid
                                     and not p.metadata ?| array['lease_expired', 'timed_out']) = r.claim_uuid
                            then 'repeated' else 'TK412' end
                when rule.event is null then 'TK409'
                -- what the engine reports it always can
                when tasker.is_large(r.metadata) and not r.metadata ?| array['lease_expired', 'timed_out']
                     and octet_length(r.metadata::text) > (select n.payload_limit from tasker.task_namespaces n where n.namespace = s.namespace)
                  then 'TK413' end as verdict
      from unnest(p_reports) r
      left join lateral (select s.workflow_step_uuid, s.task_uuid, s.namespace, s.lifecycle, s.claim_uuid, s.worker_uuid, s.attempts, s.max_attempts,
                                s.unmet_dependencies, s.retryable, s.sensitive_result, s.result_transition_uuid
                           from tasker.workflow_steps s
                          where s.workflow_step_uuid = r.step_uuid
                            and (v_bound is null or s.namespace = any (v_bound)) limit 1) s on true
      left join lateral (select c.to_state, c.sort_key from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c on true
      left join lateral (select x.event, x.to_state from tasker.lifecycle_transitions x
                          where x.lifecycle = s.lifecycle and x.from_state = c.to_state
                            and x.operation = any (case when r.success then array['report_success']
                                                        when r.metadata ? 'timed_out' then array['report_timeout', 'report_failure', 'validation_fail']
                                                        -- whoever was to validate it is gone
                                                        when r.metadata ? 'lease_expired' then array['report_failure', 'validation_fail']
                                                        else array['report_failure'] end)
                            and tasker.step_guard_holds(
                                  x.guard, row(s.unmet_dependencies, s.attempts, s.max_attempts, s.retryable,
                                               s.claim_uuid is not null, r.success,
                                               r.metadata ->> 'category')::tasker.step_facts)
                          order by x.operation = 'report_timeout' desc, x.ordinal limit 1) rule on true
  ), ranked as materialized (  -- of several good reports of one step the first is taken, and answers for all
    select j.*, row_number() over reports = 1 and j.verdict is null as is_taken, first_value(j.to_state) over reports as new_state
      from judged j
    window reports as (partition by j.step_uuid, j.verdict is null order by j.position)
  )
  select array_agg((tasker.uuid_at(v_series, k.position), k.step_uuid, k.task_uuid, k.namespace, k.lifecycle, k.state, k.event,
                    k.to_state, k.sort_key + 1, true,
                    k.metadata || jsonb_build_object('worker_uuid', k.worker_uuid, 'claim_uuid', k.claim_uuid,
                                                     'correlation_id', (select t.correlation_id from tasker.tasks t where t.task_uuid = k.task_uuid),
                                                     'attempt', k.attempts)
                   )::tasker.step_move order by k.step_uuid) filter (where k.is_taken),
         array_agg(case when k.verdict like 'TK%' then k.verdict end order by k.position),
         array_agg(case when k.verdict is null then k.new_state else k.state end order by k.position),
         (count(*) filter (where k.verdict like 'TK%'))::int, bool_or(k.is_taken and (k.sensitive_result or tasker.is_large(k.metadata)))
    into v_moves, v_codes, v_states, v_refused, v_apart
    from ranked k;

  if v_apart then
    v_moves := tasker.keep_results(v_moves);
  end if;
  if v_moves is not null then
    select array_agg(m) filter (where x.phase not in ('reported_success', 'reported_failure', 'validating')),
           coalesce(array_agg(m.workflow_step_uuid) filter (where x.phase = 'validating' and (
             select s.acceptance <> '[]' from tasker.workflow_steps s where s.workflow_step_uuid = m.workflow_step_uuid)), '{}'),
           array(select f from unnest(v_free) f except select m.task_uuid from unnest(v_moves) m where m.metadata -> 'success' = 'false')
      into v_direct, v_kept, v_free
      from unnest(v_moves) m
     cross join lateral (select x.phase from tasker.lifecycle_states x
                          where x.lifecycle = m.lifecycle and x.state = m.to_state limit 1) x;
    if v_direct is not null then
      v_moves := tasker.schedule_retries(v_moves);
    end if;
    -- is true: looked up in a hash, where a join of the two would compare each with each
    v_settled := array(select m from tasker.follow_moves(array(select m from unnest(v_moves) m
                                                                where (m.task_uuid in (select f from unnest(v_free) f)) is true), 'settle_success') m);
    perform tasker.append_step_transitions(
      array(select (m.transition_uuid, m.workflow_step_uuid, m.task_uuid, m.namespace, m.lifecycle, m.from_state, m.event, m.to_state, m.sort_key,
                    m.workflow_step_uuid not in (select d.workflow_step_uuid from unnest(v_settled) d), m.metadata)::tasker.step_move
              from unnest(v_moves) m) || v_settled, false);
    if v_direct is not null then
      -- what is settled by its report goes one way with the rest: breakers are locked last, and in one pass
      v_direct := v_direct || v_settled;
      perform tasker.count_moves(array(select p from tasker.progress_of(v_direct) p), null);
    end if;
    update tasker.workflow_steps s
       set claim_uuid = case when s.workflow_step_uuid = any (v_kept) then s.claim_uuid end,
           validation_due_at = case when s.workflow_step_uuid = any (v_kept) then tasker.clock() + tasker.validation_time(s.acceptance) end,
           result_transition_uuid = m.transition_uuid
      from unnest(v_moves) m
     where s.workflow_step_uuid = m.workflow_step_uuid;
    if cardinality(v_kept) > 0 then
      update tasker.step_claims c
         set first_timeout_at = least(c.first_timeout_at, s.validation_due_at)
        from tasker.workflow_steps s
       where s.workflow_step_uuid = any (v_kept) and c.claim_uuid = s.claim_uuid;
    end if;
    select array_agg(c.claim_uuid), array_agg(c.steps)
      into v_claims, v_counts
      from (select (m.metadata ->> 'claim_uuid')::uuid as claim_uuid, count(*)::int as steps
              from unnest(v_moves) m where m.workflow_step_uuid <> all (v_kept) group by 1 order by 1) c;
    perform tasker.count_down_claims(v_claims, v_counts);
    perform tasker.free_slots(array(select m.workflow_step_uuid from unnest(v_moves) m where m.workflow_step_uuid <> all (v_kept)));
    -- the wake-up for orchestration leaves in the same commit as the result
    v_steps := array(select m.workflow_step_uuid from unnest(v_moves) m
                      where m.workflow_step_uuid <> all (v_kept)
                        and m.workflow_step_uuid not in (select d.workflow_step_uuid from unnest(v_direct || v_settled) d));
    if cardinality(v_steps) > 0 then
      perform tasker.wake_orchestration(v_steps);
    end if;
    if v_direct is not null then
      perform tasker.settle_steps(array(select d.workflow_step_uuid from unnest(v_direct) d), null, v_direct);
    elsif cardinality(v_settled) > 0 then
      perform tasker.go_on_after(array(select distinct m.task_uuid from unnest(v_settled) m), v_settled, null, v_settled, p_claimant);
    end if;
  end if;

  if v_refused > 0 then
    v_messages := array(
      select case r.code
               when 'TK400' then r.problem
               when 'TK404' then format('there is no step %s', r.step_uuid)
               when 'TK412' then format('step %s is not held under this claim any more: its lease ended or it was taken away', r.step_uuid)
               when 'TK409' then format('step %s is %s: it takes no result', r.step_uuid, r.state)
               when 'TK413' then tasker.too_large(format('what step %s reports', r.step_uuid), octet_length(r.metadata::text), n.namespace, n.payload_limit) end
        from unnest(p_reports, v_codes, v_states) with ordinality
               as r(position, step_uuid, claim_uuid, success, metadata, problem, code, state, place)
        left join lateral (select n.namespace, n.payload_limit from tasker.workflow_steps s join tasker.task_namespaces n on n.namespace = s.namespace
                            where s.workflow_step_uuid = r.step_uuid limit 1) n on true
       order by r.place);
    perform tasker.reject_transition('step', r.step_uuid, r.code, r.message,
                                     jsonb_build_object('claim_uuid', r.claim_uuid, 'success', r.success))
       from unnest(p_reports, v_codes, v_messages)
              as r(position, step_uuid, claim_uuid, success, metadata, problem, code, message)
      where r.code is not null;
  end if;

  return query select o.* from tasker.step_outcomes(p_reports, v_states, v_codes, v_messages, v_settled) o;
end
$$;
comment on function tasker.apply_reports(tasker.step_report[], boolean, tasker.claimant) is
  'Persists reported results: one log row and one audit row each, the claim released, orchestration woken, all in one commit. p_settle: does at once what orchestration would do, where nobody else is at the task; p_claimant takes what becomes ready by it. Refused reports change nothing and are recorded. Positions run from 1, in the order of the array.';
