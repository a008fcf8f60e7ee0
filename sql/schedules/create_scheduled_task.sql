create or replace function tasker.create_scheduled_task(p_schedule tasker.schedules, p_due_at timestamptz) returns uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_key  text := tasker.schedule_key(p_schedule.schedule, p_due_at);
  v_task uuid;
begin
  -- one task for one time, whatever has become of the schedule since
  select t.task_uuid into v_task from tasker.tasks t where t.namespace = p_schedule.namespace and t.idempotency_key = v_key;
  if v_task is null then
    select c into v_task
      from tasker.create_tasks(jsonb_build_array(jsonb_strip_nulls(jsonb_build_object(
             'name', p_schedule.template, 'namespace', p_schedule.namespace, 'version', p_schedule.version, 'vocabulary', p_schedule.vocabulary,
             'idempotency_key', v_key, 'priority', p_schedule.priority, 'requested_by', p_schedule.requested_by))
             || jsonb_build_object('context', p_schedule.context || jsonb_build_object('scheduled_for', p_due_at),
                                   'tags', p_schedule.tags || jsonb_build_object('schedule', p_schedule.schedule)))) c;
  end if;
  return v_task;
end
$$;
comment on function tasker.create_scheduled_task(tasker.schedules, timestamptz) is
  'The task of a schedule for one of its times, created or found by its idempotency key. Its context has scheduled_for, its tags schedule.';
