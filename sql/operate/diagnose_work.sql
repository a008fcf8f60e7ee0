create or replace function tasker.diagnose_work(
  p_after      interval default '10 minutes',
  p_seal_after interval default '1 day',
  out topic    text,
  out severity text,
  out finding  text,
  out subject  text,
  out expected text,
  out actual   text,
  out mend     text
) returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_late interval := least(p_after, interval '1 minute');  -- what is due is seen to within seconds
  v_seal tasker.audit_seals;
begin
  perform tasker.refuse_bound_login('a diagnosis looks at all of them');
  topic := 'work';

  -- inconsistent, orphaned
  return query
    with mendable as materialized (
      select r.* from tasker.recover(true) r
    )
    select 'work', 'error', m.problem, format('%s %s', m.entity_kind, m.entity_uuid), 'something that moves it on', 'nothing does',
           'select * from tasker.recover(false, p_reason => ''...'', p_requested_by => ''...'')'
      from mendable m
    union all
    select 'work', 'error', c.finding, format('%s %s', c.entity_kind, c.entity_uuid), c.detail ->> 'counted', coalesce(c.detail ->> 'stored', c.detail::text),
           coalesce(c.proposed_call, 'find out who wrote past the functions (pgtasker audit verify), and put right by hand what the detail names')
      from tasker.check_consistency(null, true) c
     where not exists (select from mendable m where m.entity_uuid = c.entity_uuid)
       -- the same, found from the task's side
       and not (c.finding = 'progress_counters_differ' and exists (
                 select from mendable m join tasker.workflow_steps s on s.workflow_step_uuid = m.entity_uuid where s.task_uuid = c.entity_uuid));

  -- stuck
  return query
    select 'work', 'warning', 'task_that_does_not_move', format('task %s', s.task_uuid), format('something happens within %s', p_after),
           format('%s since %s: %s', s.state, s.since, s.why),
           coalesce((select r.reason ->> 'call' from jsonb_array_elements(tasker.explain_task(s.task_uuid) -> 'reasons') as r(reason)
                      where r.reason ->> 'call' is not null limit 1), s.proposed_call)
      from tasker.find_stuck(p_after) s;

  -- waiting for somebody who is not there
  return query
    select 'work', 'error', 'handler_without_worker', format('handler %s in namespace %s', w.handler, w.namespace),
           'a living worker has it', format('%s step(s) wait, the first since %s: %s', count(*), min(w.created_at), missing.words),
           format('pgtasker worker run your_module:worker --namespace %s', w.namespace)
      from tasker.handler_waits w
      join tasker.workflow_step_transitions c on c.workflow_step_uuid = w.workflow_step_uuid and c.most_recent and c.sort_key = w.sort_key
     cross join lateral (select tasker.handler_missing(w.namespace, w.handler) as words) missing
     where w.created_at < tasker.clock() - v_late and missing.words is not null
     group by w.handler, w.namespace, missing.words;

  -- expired: is there anybody who calls tick, orchestrate, seal_audit, purge_expired?
  return query
    select 'work', 'error', 'timers_overdue', t.kind, format('a worker, or cron, calls tick: fired within %s', v_late), format('%s, the first was due at %s', count(*), min(t.due_at)),
           'select * from tasker.tick()'
      from tasker.timers t where t.due_at < tasker.clock() - v_late group by t.kind;
  return query
    select 'work', 'error', 'leases_overdue', format('claim %s', k.claim_uuid), format('a worker, or cron, calls tick: ended within %s', v_late),
           format('%s steps held by worker %s, due at %s', k.open_steps, k.worker_uuid, least(k.lease_expires_at, k.first_timeout_at)),
           'select * from tasker.tick()'
      from tasker.step_claims k where least(k.lease_expires_at, k.first_timeout_at) < tasker.clock() - v_late;
  return query
    select 'work', 'error', 'results_that_nobody_settles', q.queue_name, format('a worker, or cron, calls orchestrate: settled within %s', v_late),
           format('%s wait, the oldest for %s s', q.depth, q.oldest_seconds),
           'select * from tasker.orchestrate()'
      from tasker.metrics_queues() q
     where q.namespace is null and q.depth > 0 and make_interval(secs => q.oldest_seconds) >= v_late;
  return query
    select 'work', 'notice', 'answers_past_their_time', 'idempotency_keys', 'cron calls purge_expired: gone within a day', format('%s of them', count(*)),
           'select tasker.purge_expired()'
      from tasker.idempotency_keys k where k.expires_at < tasker.clock() - interval '1 day'
    having count(*) > 0;
  return query
    select 'work', 'warning', 'clock_that_is_shifted', 'test_clock', 'no shift', c.shift::text, 'delete from tasker.test_clock'
      from tasker.test_clock c where c.shift <> interval '0';

  select s.* into v_seal from tasker.audit_seals s order by s.seal_number desc limit 1;
  return query
    -- who never seals may not want to
    select 'work', 'notice', 'evidence_not_sealed', 'changes', format('cron calls seal_audit: sealed within %s', p_seal_after),
           format('never sealed, and there since %s', c.recorded_at), 'select * from tasker.seal_audit()'
      from (select c.recorded_at from tasker.changes c
             where v_seal.seal_number is null
             order by c.recorded_xid, c.change_id limit 1) c
     where c.recorded_at < clock_timestamp() - p_seal_after
    union all
    select 'work', 'warning', 'evidence_not_sealed', 'changes', format('cron calls seal_audit: sealed within %s', p_seal_after),
           format('last sealed at %s; what is there since %s is not', v_seal.sealed_at, min(c.recorded_at)), 'select * from tasker.seal_audit()'
      from tasker.unsealed_changes c
     where v_seal.seal_number is not null
    having min(c.recorded_at) < clock_timestamp() - p_seal_after;
end
$$;
comment on function tasker.diagnose_work(interval, interval) is
  'What is stuck, orphaned, overdue or inconsistent about work that has not ended, what nobody settles, seals or purges, and the call that mends it. p_after: how long unfinished work may stand still; p_seal_after: how long evidence may go without a seal.';
