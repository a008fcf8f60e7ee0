create or replace function tasker.task_family(p_task_uuid uuid) returns setof uuid
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  with recursive family as (
    select p_task_uuid as task_uuid
    union
    select t.task_uuid
      from family f
     cross join lateral (select c.task_uuid from tasker.tasks c where c.parent_task_uuid = f.task_uuid
                         union all
                         select c.task_uuid from tasker.tasks c where c.resumes_task_uuid = f.task_uuid
                         union all
                         select c.task_uuid from tasker.tasks c where c.compensates_task_uuid = f.task_uuid) t
  )
  select f.task_uuid from family f
$$;
comment on function tasker.task_family(uuid) is 'A task with its children and the tasks that resume or undo it, theirs, and so on.';
