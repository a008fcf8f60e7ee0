create or replace function tasker.foreign_owned(p_task_uuids uuid[], p_processor_uuid uuid) returns uuid[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
  -- nobody holds a lease in most installations: one look at a small table and it is over
  if not exists (select from tasker.processors p where p.lease_expires_at > tasker.clock()) then
    return array[]::uuid[];
  end if;
  return array(
    select asked.task_uuid
      from unnest(p_task_uuids) as asked(task_uuid)
     cross join lateral (select c.lifecycle, c.to_state, c.processor_uuid from tasker.task_transitions c
                          where c.task_uuid = asked.task_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state and s.requires_ownership
      join tasker.processors p on p.processor_uuid = c.processor_uuid and p.lease_expires_at > tasker.clock()
     where c.processor_uuid is distinct from p_processor_uuid);
end
$$;
comment on function tasker.foreign_owned(uuid[], uuid) is
  'Which of these tasks belong to another processor: their state requires ownership, their newest transition carries its key and its lease is alive (seed 004, Ownership Rules).';
