create or replace function tasker.task_revision(p_task_uuid uuid) returns bigint
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  return (select c.sort_key + coalesce((
                   select sum(n.sort_key)
                     from tasker.workflow_steps s
                    cross join lateral (select n.sort_key from tasker.workflow_step_transitions n
                                         where n.workflow_step_uuid = s.workflow_step_uuid and n.most_recent limit 1) n
                    where s.task_uuid = c.task_uuid), 0)
            from tasker.task_transitions c
           where c.task_uuid = p_task_uuid and c.most_recent and tasker.may_see(c.namespace));
end
$$;
comment on function tasker.task_revision(uuid) is
  'How many transitions a task and its steps have made so far: it grows with each, so whoever watches the task asks this instead of reading all of it. Null where there is no such task.';
