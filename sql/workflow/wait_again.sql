create or replace function tasker.wait_again(p_moves tasker.step_move[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  with restored as (
    update tasker.workflow_step_edges e
       set waived = null
      from unnest(p_moves) m
      join tasker.lifecycle_states n on n.lifecycle = m.lifecycle and n.state = m.to_state and n.phase = 'pending'
     where e.to_step_uuid = m.workflow_step_uuid and e.waived
       and not exists (select from tasker.workflow_steps s where s.workflow_step_uuid = m.workflow_step_uuid and s.options ? 'elements')
    returning e.to_step_uuid, e.from_step_uuid
  )
  update tasker.workflow_steps s
     set unmet_dependencies = s.unmet_dependencies + d.unmet
    from (select r.to_step_uuid, (count(*) filter (where not tasker.is_finished(r.from_step_uuid)))::int as unmet from restored r group by r.to_step_uuid) d
   where s.workflow_step_uuid = d.to_step_uuid and d.unmet > 0;
end
$$;
comment on function tasker.wait_again(tasker.step_move[]) is
  'A step that somebody sends back to work waits again for the dependencies that were waived for it.';
