create or replace function tasker.expire_leases(p_now timestamptz, p_limit int) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_claims  uuid[];
  v_steps   uuid[];
  v_reports tasker.step_report[];
begin
  -- Same order as a report: steps first, then their claims, by key. The delete decides, so that an extension that came first wins.
  v_claims := array(select c.claim_uuid from tasker.step_claims c where c.lease_expires_at <= p_now
                     order by c.lease_expires_at limit p_limit);
  if cardinality(v_claims) = 0 then
    return 0;
  end if;
  v_steps := array(select s.workflow_step_uuid
                     from tasker.step_claims c
                    cross join lateral unnest(c.step_uuids) as held(workflow_step_uuid)
                    cross join lateral (select s.workflow_step_uuid from tasker.workflow_steps s
                                         where s.workflow_step_uuid = held.workflow_step_uuid and s.claim_uuid = c.claim_uuid limit 1) s
                    where c.claim_uuid = any (v_claims));
  perform tasker.lock_steps(v_steps);
  perform from tasker.step_claims c where c.claim_uuid = any (v_claims) order by c.claim_uuid for update;
  with ended as (
    delete from tasker.step_claims c
     where c.claim_uuid = any (v_claims) and c.lease_expires_at <= p_now
    returning c.claim_uuid, c.worker_uuid, c.lease_expires_at, c.step_uuids
  )
  select array_agg((row_number, x.workflow_step_uuid, x.claim_uuid, false,
                    jsonb_build_object('success', false, 'category', 'transient', 'lease_expired', true,
                                       'error', jsonb_build_object('type', 'lease_expired', 'message',
                                         format('worker %s let its lease end at %s', x.worker_uuid, x.lease_expires_at))),
                    null)::tasker.step_report order by row_number)
    into v_reports
    from (select s.workflow_step_uuid, e.claim_uuid, e.worker_uuid, e.lease_expires_at, row_number() over ()
            from ended e
           cross join lateral unnest(e.step_uuids) as held(workflow_step_uuid)
           cross join lateral (select s.workflow_step_uuid from tasker.workflow_steps s
                                where s.workflow_step_uuid = held.workflow_step_uuid and s.claim_uuid = e.claim_uuid limit 1) s) x;
  if v_reports is null then
    return 0;
  end if;
  perform from tasker.apply_reports(v_reports);
  return cardinality(v_reports);
end
$$;
comment on function tasker.expire_leases(timestamptz, int) is
  'Takes steps from workers whose lease ended: each attempt is reported as failed on their behalf, audited under their key, and the fence refuses them from then on.';
