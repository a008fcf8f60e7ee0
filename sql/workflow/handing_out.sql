create or replace function tasker.handing_out(p_task_uuids uuid[]) returns uuid[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return array(
    select asked.task_uuid
      from unnest(p_task_uuids) as asked(task_uuid)
     cross join lateral (select c.lifecycle, c.to_state from tasker.task_transitions c
                          where c.task_uuid = asked.task_uuid and c.most_recent limit 1) c
      join tasker.lifecycles l on l.lifecycle = c.lifecycle and not l.has_enqueuing_phase
      join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state and s.phase in ('starting', 'running'));
end
$$;
comment on function tasker.handing_out(uuid[]) is
  'Which of these tasks hand out ready steps in the state they are in, since their lifecycle has no state for handing out.';
