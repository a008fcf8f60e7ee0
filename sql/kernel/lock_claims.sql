create or replace function tasker.lock_claims(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform from tasker.step_claims c
    where c.claim_uuid = any (array(select distinct s.claim_uuid from tasker.workflow_steps s
                                     where s.workflow_step_uuid = any (p_step_uuids) and s.claim_uuid is not null))
    order by c.claim_uuid for update;
end
$$;
comment on function tasker.lock_claims(uuid[]) is
  'Locks the claims under which these locked steps are held, in the fixed order: tasks, steps, claims, breakers. Whoever releases claims more than once in a transaction locks all of them first.';
