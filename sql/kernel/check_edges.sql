create or replace function tasker.check_edges() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bad record;
begin
  if not exists (select from appended) then  -- tasks of one step have none
    return null;
  end if;
  select e.* into v_bad
    from appended e
    left join lateral (select s.task_uuid from tasker.workflow_steps s where s.workflow_step_uuid = e.from_step_uuid limit 1) f on true
    left join lateral (select s.task_uuid from tasker.workflow_steps s where s.workflow_step_uuid = e.to_step_uuid limit 1) t on true
   where t.task_uuid is distinct from e.task_uuid
      or (f.task_uuid is distinct from e.task_uuid
          and not exists (with recursive before_it as (
                            select coalesce(k.resumes_task_uuid, k.compensates_task_uuid) as task_uuid from tasker.tasks k where k.task_uuid = e.task_uuid
                             union
                            select coalesce(k.resumes_task_uuid, k.compensates_task_uuid) from before_it b join tasker.tasks k on k.task_uuid = b.task_uuid)
                          select from before_it b where b.task_uuid = f.task_uuid))
   limit 1;
  if found then
    perform tasker.raise_error('TK400', 'an edge joins two steps of one task', to_jsonb(v_bad),
                               'Both steps must exist and belong to task_uuid, or the first one to a task that it resumes or undoes.');
  end if;
  return null;
end
$$;
comment on function tasker.check_edges() is 'Refuses edges between tasks, unless one resumes or undoes the other, and edges to steps that do not exist.';

create or replace trigger check_edges
  after insert on tasker.workflow_step_edges
  referencing new table as appended
  for each statement execute function tasker.check_edges();
comment on trigger check_edges on tasker.workflow_step_edges is 'No edge spans two tasks, unless one resumes or undoes the other.';
