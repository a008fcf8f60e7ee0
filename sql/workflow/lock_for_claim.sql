create or replace function tasker.lock_for_claim(p_step_uuids uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_tasks    uuid[];
  v_starting uuid[];
begin
  -- Most lifecycles move only the step when it is claimed. Where the task moves or counts too, it is locked first.
  select coalesce(array_agg(distinct x.task_uuid), '{}'), coalesce(array_agg(distinct x.task_uuid) filter (where x.starts), '{}')
    into v_tasks, v_starting
    from (select s.task_uuid, sl.queues_by_state,
                 tl.watches_starts and (select true from tasker.task_transitions c
                                          join tasker.lifecycle_transitions r
                                            on r.lifecycle = c.lifecycle and r.from_state = c.to_state and r.operation = 'first_start'
                                         where c.task_uuid = s.task_uuid and c.most_recent limit 1) as starts
            from unnest(p_step_uuids) as asked(workflow_step_uuid)
           cross join lateral (select s.task_uuid, s.lifecycle from tasker.workflow_steps s
                                where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
           cross join lateral (select t.lifecycle from tasker.tasks t where t.task_uuid = s.task_uuid limit 1) t
            join tasker.lifecycles sl on sl.lifecycle = s.lifecycle
            join tasker.lifecycles tl on tl.lifecycle = t.lifecycle
           where not sl.queues_by_state or tl.watches_starts) x
   where not x.queues_by_state or x.starts;
  if cardinality(v_tasks) > 0 then
    perform tasker.lock_tasks(v_tasks);
  end if;
  perform tasker.lock_steps(p_step_uuids);
  return v_starting;
end
$$;
comment on function tasker.lock_for_claim(uuid[]) is
  'Locks steps that are about to be claimed, and first those of their tasks that move or count too. Returns the tasks whose first step this may be.';
