create or replace function tasker.put_back_timers(p_timers tasker.timers[]) returns tasker.timers[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_early uuid[];
begin
  with early as (
    select t.timer_uuid, k.start_at + case t.kind when 'task_timeout' then k.timeout else interval '0' end as due_at
      from unnest(p_timers) t
     cross join lateral (select k.start_at, k.timeout from tasker.tasks k where k.task_uuid = t.task_uuid and k.unique_key is not null limit 1) k
     where (t.kind = 'drive' and t.sort_key = 1) or t.kind = 'task_timeout'
  ), again as (
    insert into tasker.timers (due_at, kind, task_uuid, namespace, workflow_step_uuid, sort_key)
    select e.due_at, t.kind, t.task_uuid, t.namespace, t.workflow_step_uuid, t.sort_key
      from unnest(p_timers) t join early e on e.timer_uuid = t.timer_uuid and e.due_at > tasker.clock()
  )
  select array_agg(e.timer_uuid) into v_early from early e where e.due_at > tasker.clock();
  return case when v_early is null then p_timers else array(select t from unnest(p_timers) t where t.timer_uuid <> all (v_early)) end;
end
$$;
comment on function tasker.put_back_timers(tasker.timers[]) is
  'Sets timers again that were set before the start of their task was pushed back, and answers the others. The caller holds the locks of the tasks.';
