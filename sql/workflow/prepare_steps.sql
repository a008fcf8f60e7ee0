create or replace function tasker.prepare_steps(p_ready_steps uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  -- plain steps, and most are, cost this look at them
  if not exists (select from tasker.workflow_steps s
                  where s.workflow_step_uuid = any (p_ready_steps) and (s.condition is not null or s.options is not null)) then
    return coalesce(p_ready_steps, '{}');
  end if;
  return tasker.expand_maps(tasker.wait_for_events(tasker.leave_out_steps(p_ready_steps)));
end
$$;
comment on function tasker.prepare_steps(uuid[]) is
  'Looks at steps that became ready before they are handed out: their conditions, then the events that they wait for, then the lists of maps. Answers those that are to be handed out, with those that became ready by it. The caller holds the locks of the tasks.';
