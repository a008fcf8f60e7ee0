create or replace function tasker.check_edges() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_bad record;
begin
  select e.* into v_bad
    from appended e
    left join lateral (select s.task_uuid from tasker.workflow_steps s where s.workflow_step_uuid = e.from_step_uuid limit 1) f on true
    left join lateral (select s.task_uuid from tasker.workflow_steps s where s.workflow_step_uuid = e.to_step_uuid limit 1) t on true
   where f.task_uuid is distinct from e.task_uuid or t.task_uuid is distinct from e.task_uuid
   limit 1;
  if found then
    perform tasker.raise_error('TK400', 'an edge joins two steps of one task', to_jsonb(v_bad),
                               'Both steps must exist and belong to task_uuid.');
  end if;
  return null;
end
$$;
comment on function tasker.check_edges() is 'Refuses edges between tasks or to steps that do not exist.';

create or replace trigger check_edges
  after insert on tasker.workflow_step_edges
  referencing new table as appended
  for each statement execute function tasker.check_edges();
comment on trigger check_edges on tasker.workflow_step_edges is 'No edge spans two tasks.';
