create or replace function tasker.waive_dependencies(p_task_uuids uuid[], p_starting boolean) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_waiting uuid[];
  v_ready   uuid[];
begin
  v_waiting := array(
    select s.workflow_step_uuid
      from unnest(p_task_uuids) as asked(task_uuid)
     cross join lateral (select from tasker.tasks t
                          where t.task_uuid = asked.task_uuid and t.failed_steps > 0 and t.failed_critical_steps = 0 limit 1) failing
     cross join lateral (select s.workflow_step_uuid from tasker.workflow_steps s
                          where s.task_uuid = asked.task_uuid and s.options ->> 'run_when' = 'all_finished' and s.unmet_dependencies > 0 offset 0) s
     cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state and x.phase = 'pending'
     cross join lateral (select c.lifecycle, c.to_state from tasker.task_transitions c
                          where c.task_uuid = asked.task_uuid and c.most_recent limit 1) k
      join tasker.lifecycle_states y on y.lifecycle = k.lifecycle and y.state = k.to_state and (y.phase <> 'pending' or p_starting));
  if cardinality(v_waiting) = 0 then
    return v_waiting;
  end if;
  -- a step that rests until its circuit is tried again may rest for ever; anything else that moves is waited for
  v_waiting := array(
    select w.workflow_step_uuid
      from unnest(v_waiting) as w(workflow_step_uuid)
     cross join lateral (select s.task_uuid from tasker.workflow_steps s where s.workflow_step_uuid = w.workflow_step_uuid limit 1) k
     where not exists (select from tasker.workflow_steps s
                        cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                                             where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
                         join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
                        where s.task_uuid = k.task_uuid
                          and ((x.phase = 'pending' and s.handed_out_at is not null) or (x.counts_as = 'waiting_retry' and x.phase <> 'circuit_open'))));

  with recursive behind as (
    select e.to_step_uuid from tasker.workflow_step_edges e where e.from_step_uuid = any (v_waiting)
     union
    select e.to_step_uuid from behind b join tasker.workflow_step_edges e on e.from_step_uuid = b.to_step_uuid
  ), waived as (
    update tasker.workflow_step_edges e
       set waived = true
      from unnest(v_waiting) as w(workflow_step_uuid)
     where e.to_step_uuid = w.workflow_step_uuid and e.waived is null
       and w.workflow_step_uuid not in (select b.to_step_uuid from behind b)
       and not tasker.is_finished(e.from_step_uuid)
    returning e.to_step_uuid
  ), counted as (
    update tasker.workflow_steps s
       set unmet_dependencies = s.unmet_dependencies - d.waived
      from (select w.to_step_uuid, count(*)::int as waived from waived w group by w.to_step_uuid) d
     where s.workflow_step_uuid = d.to_step_uuid
    returning s.workflow_step_uuid
  )
  select array_agg(c.workflow_step_uuid order by c.workflow_step_uuid) into v_ready from counted c;
  return coalesce(v_ready, '{}');
end
$$;
comment on function tasker.waive_dependencies(uuid[], boolean) is
  'In those of these locked tasks that failures have brought to rest: steps that run however the others end wait no more for what can''t start. Of those that wait for each other the first. Answers the steps that are ready by it.';
