create or replace function tasker.hold_steps(p_step_uuids uuid[], p_claimant tasker.claimant) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  with held as (
    update tasker.workflow_steps s
       set claim_uuid = (p_claimant).claim_uuid, worker_uuid = (p_claimant).worker_uuid, handed_out_at = null, left_out = false,
           attempts = s.attempts + 1, last_attempted_at = (p_claimant).claimed_at,
           max_attempts = greatest(s.max_attempts, s.attempts + 1)  -- whoever sent it back to work wants one more attempt
     where s.workflow_step_uuid = any (p_step_uuids)
    returning s.namespace, s.timeout
  )
  insert into tasker.step_claims (claim_uuid, worker_uuid, namespace, step_uuids, open_steps, claimed_at, lease_expires_at, first_timeout_at)
  select (p_claimant).claim_uuid, (p_claimant).worker_uuid, min(h.namespace), p_step_uuids, cardinality(p_step_uuids), (p_claimant).claimed_at,
         (p_claimant).claimed_at + (p_claimant).lease, (p_claimant).claimed_at + min(h.timeout)
    from held h;
end
$$;
comment on function tasker.hold_steps(uuid[], tasker.claimant) is
  'Notes who holds these locked steps of one namespace, under which claim and until when. Another attempt has begun.';
