create or replace function tasker.create_unique_tasks(
  p_tasks tasker.tasks[],
  p_plans uuid[],
  p_steps tasker.named_steps[],
  p_start boolean[],
  p_rules tasker.unique_rule[]
) returns tasker.submitted_task[]
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_asked  uuid[] := array(select t.task_uuid from unnest(p_tasks) with ordinality as t order by t.ordinality);
  v_behind tasker.unique_answer[] := tasker.take_unique_keys(p_tasks, p_rules);
  v_left   uuid[];
  v_made   uuid[];
begin
  select array_agg(a.task_uuid order by a.position), array_agg(a.plan_uuid order by a.position), array_agg(a.start order by a.position)
    into v_left, p_plans, p_start
    from unnest(v_asked, p_plans, p_start) with ordinality as a(task_uuid, plan_uuid, start, position)
    left join unnest(v_behind) b on b.asked = a.task_uuid
   where b.asked is null;
  if v_left is not null then
    v_made := tasker.create_or_find_tasks(
      array(select t from unnest(p_tasks) t join unnest(v_left) with ordinality as l(task_uuid, position) on l.task_uuid = t.task_uuid order by l.position),
      p_plans, p_steps, p_start);
  end if;
  return array(
    select (coalesce(b.task_uuid, m.task_uuid),
            coalesce(b.outcome, case when m.task_uuid = a.task_uuid then 'created' else 'found' end))::tasker.submitted_task
      from unnest(v_asked) with ordinality as a(task_uuid, position)
      left join unnest(v_behind) b on b.asked = a.task_uuid
      left join unnest(v_left, v_made) as m(asked, task_uuid) on m.asked = a.task_uuid
     order by a.position);
end
$$;
comment on function tasker.create_unique_tasks(tasker.tasks[], uuid[], tasker.named_steps[], boolean[], tasker.unique_rule[]) is
  'create_or_find_tasks for requests of which some have a unique key: those behind another task are answered with it, the rest is created.';
