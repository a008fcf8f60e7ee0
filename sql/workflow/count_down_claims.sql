create or replace function tasker.count_down_claims(p_claim_uuids uuid[], p_steps int[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  -- in one pass and one order: a second one over the same claims could meet whoever is in his first
  update tasker.step_claims c
     set open_steps = c.open_steps - d.steps
    from unnest(p_claim_uuids, p_steps) as d(claim_uuid, steps)
   where c.claim_uuid = d.claim_uuid;
  delete from tasker.step_claims c
   where c.claim_uuid = any (p_claim_uuids) and c.open_steps <= 0;
end
$$;
comment on function tasker.count_down_claims(uuid[], int[]) is
  'So many steps of each claim are not held any more; a claim without open steps is gone.';
