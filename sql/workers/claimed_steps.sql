create or replace function tasker.claimed_steps(p_claim_uuids uuid[]) returns setof tasker.workflow_steps
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
as $$
  select s.*
    from tasker.step_claims c
   cross join lateral unnest(c.step_uuids) as held(workflow_step_uuid)
   cross join lateral (select * from tasker.workflow_steps s
                        where s.workflow_step_uuid = held.workflow_step_uuid and s.claim_uuid = c.claim_uuid limit 1) s
   where c.claim_uuid = any (p_claim_uuids)
$$;
comment on function tasker.claimed_steps(uuid[]) is 'The steps that are still held under these claims.';
