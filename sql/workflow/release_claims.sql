create or replace function tasker.release_claims(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_claims uuid[];
  v_counts int[];
  v_engine boolean;
begin
  perform tasker.free_slots(p_step_uuids);
  select array_agg(c.claim_uuid), array_agg(c.steps), bool_or(c.engine)
    into v_claims, v_counts, v_engine
    from (select s.claim_uuid, count(*)::int as steps, bool_or(s.worker_uuid is null) as engine
            from tasker.workflow_steps s
           where s.workflow_step_uuid = any (p_step_uuids) and s.claim_uuid is not null
           group by s.claim_uuid
           order by s.claim_uuid) c;
  if v_claims is null then
    return;
  end if;
  update tasker.workflow_steps s set claim_uuid = null
   where s.workflow_step_uuid = any (p_step_uuids) and s.claim_uuid is not null;
  perform tasker.count_down_claims(v_claims, v_counts);
  if v_engine then
    perform tasker.abandon_children(p_step_uuids);
  end if;
end
$$;
comment on function tasker.release_claims(uuid[]) is
  'Seed 004 ErrorStateCleanupAction: takes these steps from whoever holds them, so that a late report is refused.';
