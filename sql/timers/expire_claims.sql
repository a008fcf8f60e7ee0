create or replace function tasker.expire_claims(p_now timestamptz, p_limit int) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_claims  uuid[];
  v_tasks   uuid[];
  v_others  uuid[];
  v_steps   uuid[];
  v_reports tasker.step_report[];
  v_bound   text[] := tasker.bound_namespaces();
  v_engine  boolean;  -- some of the steps are held by the engine
begin
  -- tick holds other locks by now, so it waits for none of these: what somebody else works on is left to the next tick, and
  -- callers who tick at once take different claims. What the claim row says under its lock decides, so that an extension
  -- that came first wins.
  v_claims := array(select c.claim_uuid from tasker.step_claims c
                     where least(c.lease_expires_at, c.first_timeout_at) <= p_now and (v_bound is null or c.namespace = any (v_bound))
                     order by least(c.lease_expires_at, c.first_timeout_at) limit p_limit for update skip locked);
  if cardinality(v_claims) = 0 then
    return 0;
  end if;
  v_tasks := array(select t.task_uuid from tasker.tasks t
                    where t.task_uuid = any (array(
                            select distinct s.task_uuid
                              from tasker.claimed_steps(v_claims) s
                              join tasker.lifecycles l on l.lifecycle = s.lifecycle and l.settles_at_report))
                    order by t.task_uuid for no key update skip locked);
  -- a failure may end the task, and with it what others hold
  v_others := array(select c.claim_uuid from tasker.step_claims c
                     where c.claim_uuid = any (array(select s.claim_uuid from tasker.workflow_steps s
                                                      where s.task_uuid = any (v_tasks) and s.claim_uuid is not null))
                       for update skip locked);
  v_tasks := array(select t from unnest(v_tasks) t
                    except select s.task_uuid from tasker.workflow_steps s
                            where s.task_uuid = any (v_tasks) and s.claim_uuid <> all (v_others)
                              and exists (select from tasker.step_claims c where c.claim_uuid = s.claim_uuid));
  v_steps := array(select s.workflow_step_uuid from tasker.workflow_steps s
                    where s.workflow_step_uuid = any (array(
                            select c.workflow_step_uuid
                              from tasker.claimed_steps(v_claims) c
                              join tasker.lifecycles l on l.lifecycle = c.lifecycle
                             where not l.settles_at_report or c.task_uuid = any (v_tasks)))
                    order by s.workflow_step_uuid for no key update skip locked);
  v_claims := array(select c from unnest(v_claims) c
                    except select s.claim_uuid from tasker.claimed_steps(v_claims) s where s.workflow_step_uuid <> all (v_steps));

  select array_agg((x.position, x.workflow_step_uuid, x.claim_uuid, false,
                    jsonb_strip_nulls(jsonb_build_object(
                      -- the same checks on the same result would take as long again
                      'success', false, 'category', case when x.validating and not x.lease_ended then 'permanent' else 'transient' end,
                      'checkpoint', case when octet_length(x.checkpoint::text) > x.payload_threshold
                        then jsonb_build_object('size', octet_length(x.checkpoint::text),
                                                'sha256', encode(sha256(convert_to(x.checkpoint::text, 'UTF8')), 'hex'))
                        else x.checkpoint end,
                      case when x.lease_ended then 'lease_expired' else 'timed_out' end, true,
                      'error', case when x.lease_ended
                        then jsonb_build_object('type', 'lease_expired', 'message',
                                                format('worker %s let its lease end at %s', x.worker_uuid, x.lease_expires_at))
                        when x.validating
                        then jsonb_build_object('type', 'timeout', 'message', format('its acceptance checks took longer than %s', x.validation_time))
                        else jsonb_build_object('type', 'timeout', 'message', format('it ran for longer than %s', x.timeout)) end)),
                    null)::tasker.step_report order by x.position)
    into v_reports
    from (select s.workflow_step_uuid, c.claim_uuid, c.worker_uuid, c.lease_expires_at, s.timeout, k.checkpoint, n.payload_threshold,
                 c.lease_expires_at <= p_now as lease_ended, x.phase = 'validating' as validating,
                 tasker.validation_time(s.acceptance) as validation_time, (row_number() over ())::int as position
            from tasker.step_claims c
           cross join lateral tasker.claimed_steps(array[c.claim_uuid]) s
           cross join lateral (select t.lifecycle, t.to_state from tasker.workflow_step_transitions t
                                where t.workflow_step_uuid = s.workflow_step_uuid and t.most_recent limit 1) t
            join tasker.lifecycle_states x on x.lifecycle = t.lifecycle and x.state = t.to_state
            join tasker.task_namespaces n on n.namespace = s.namespace
            left join tasker.step_checkpoints k on k.workflow_step_uuid = s.workflow_step_uuid
           where c.claim_uuid = any (v_claims)
             and (c.lease_expires_at <= p_now
                  -- the timeout is one of the execution: it stops when the result is validated (seed 000), which has one of its own
                  or case x.phase when 'running' then s.last_attempted_at + s.timeout when 'validating' then s.validation_due_at end <= p_now)) x;
  if v_reports is not null then
    v_engine := exists (select from tasker.step_claims c where c.claim_uuid = any (v_claims) and c.worker_uuid is null);
    perform from tasker.apply_reports(v_reports);
    if v_engine then
      perform tasker.abandon_children(array(select r.step_uuid from unnest(v_reports) r));
    end if;
  end if;

  -- an ended claim is gone; one that lives on wakes tick again for the next of its steps
  delete from tasker.step_claims c where c.claim_uuid = any (v_claims) and c.lease_expires_at <= p_now;
  update tasker.step_claims c
     set first_timeout_at = coalesce((select min(case x.phase when 'running' then s.last_attempted_at + s.timeout else s.validation_due_at end)
                                        from tasker.workflow_steps s
                                        join tasker.workflow_step_transitions t on t.workflow_step_uuid = s.workflow_step_uuid and t.most_recent
                                        join tasker.lifecycle_states x on x.lifecycle = t.lifecycle and x.state = t.to_state and x.phase in ('running', 'validating')
                                       where s.workflow_step_uuid = any (c.step_uuids) and s.claim_uuid = c.claim_uuid), 'infinity')
   where c.claim_uuid = any (v_claims);
  return coalesce(cardinality(v_reports), 0);
end
$$;
comment on function tasker.expire_claims(timestamptz, int) is
  'Takes steps from workers whose lease ended or that run one for too long: each attempt is reported as failed on their behalf with what it saved, audited under their key, and the fence refuses them from then on.';
