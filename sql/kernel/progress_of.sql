create or replace function tasker.progress_of(p_moves tasker.step_move[]) returns setof tasker.task_progress
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  return query
  select m.task_uuid,
         sum((m.counts_as = 'pending')::int       - (m.counted_as = 'pending')::int)::int,
         sum((m.counts_as = 'in_flight')::int     - (m.counted_as = 'in_flight')::int)::int,
         sum((m.counts_as = 'waiting_retry')::int - (m.counted_as = 'waiting_retry')::int)::int,
         sum((m.counts_as = 'satisfied')::int     - (m.counted_as = 'satisfied')::int)::int,
         sum((m.counts_as = 'failed')::int        - (m.counted_as = 'failed')::int)::int,
         sum(case when m.on_failure = 'stop' then m.fails::int - m.failed::int else 0 end)::int
    from (select m.task_uuid, s.on_failure, tasker.counts_as(o.counts_as, s.on_failure, s.left_out) as counted_as,
                 tasker.counts_as(n.counts_as, s.on_failure, s.left_out) as counts_as,
                 -- one that somebody cancelled or skipped has not failed
                 o.phase = 'failed' as failed, n.phase = 'failed' as fails
            from unnest(p_moves) m
            join tasker.lifecycle_states o on o.lifecycle = m.lifecycle and o.state = m.from_state
            join tasker.lifecycle_states n on n.lifecycle = m.lifecycle and n.state = m.to_state
            -- only of one that fails, or did, it matters what its failure means
            left join lateral (select s.on_failure, s.left_out from tasker.workflow_steps s
                                where s.workflow_step_uuid = m.workflow_step_uuid and 'failed' in (o.counts_as, n.counts_as, o.phase, n.phase)
                                limit 1) s on true
           -- moves between two states that count the same change nothing
           where o.counts_as <> n.counts_as or (o.phase = 'failed') <> (n.phase = 'failed')) m
   group by m.task_uuid;
end
$$;
comment on function tasker.progress_of(tasker.step_move[]) is 'What these moves of steps change in the progress counters of their tasks.';
