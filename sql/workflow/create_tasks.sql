create or replace function tasker.create_tasks(p_requests jsonb) returns setof uuid
language sql
security definer
set search_path = pg_catalog, pg_temp
as $$
  select s.task_uuid from tasker.submit_tasks(p_requests) s
$$;
comment on function tasker.create_tasks(jsonb) is 'submit_tasks, with the keys of the tasks alone: one for each request, in the same order.';
