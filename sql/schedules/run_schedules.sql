create or replace function tasker.run_schedules(p_now timestamptz, p_limit int) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  c_batch    constant int := 100;  -- tasks of one schedule in one call; the rest comes in the next
  v_bound    text[] := tasker.bound_namespaces();
  v_schedule tasker.schedules;
  v_times    timestamptz[];
  v_due_at   timestamptz;
  v_from     timestamptz;
  v_code     text;
  v_message  text;
  v_fired    int := 0;
begin
  for v_schedule in
    select s.* from tasker.schedules s
     where s.next_due_at <= p_now and (v_bound is null or s.namespace = any (v_bound))
     order by s.next_due_at limit p_limit for no key update skip locked
  loop
    v_from := v_schedule.next_due_at - interval '1 second';
    if v_schedule.catch_up = 'none' then
      v_from := greatest(v_from, p_now - interval '1 minute');
    end if;
    v_times := array(select t from tasker.walk_cron(v_schedule.cron, v_schedule.time_zone, v_from, p_now,
                                                     case v_schedule.catch_up when 'all' then c_batch else 100000 end) t);
    v_schedule.last_due_at := coalesce(v_times[cardinality(v_times)], v_schedule.last_due_at);
    if v_schedule.catch_up = 'latest' then
      v_times := v_times[cardinality(v_times):];
    end if;

    foreach v_due_at in array v_times loop
      if v_schedule.overlap = 'skip'
         and exists (select from tasker.tasks t where t.task_uuid = v_schedule.last_task_uuid and t.completed_at is null) then
        continue;
      end if;
      begin
        v_schedule.last_task_uuid := tasker.create_scheduled_task(v_schedule, v_due_at);
        v_schedule.last_refusal := null;
      exception
      -- what create_tasks refuses; one schedule that can't be served must not stop the clock for the others
      when sqlstate 'TK400' or sqlstate 'TK403' or sqlstate 'TK404' or sqlstate 'TK409' or sqlstate 'TK422' then
        get stacked diagnostics v_code = returned_sqlstate, v_message = message_text;
        v_schedule.last_refusal := v_message;
        perform tasker.reject_transition('schedule', null, v_code, format('schedule %s.%s: %s', v_schedule.namespace, v_schedule.schedule, v_message),
                                         jsonb_build_object('namespace', v_schedule.namespace, 'schedule', v_schedule.schedule, 'due_at', v_due_at));
      end;
    end loop;

    update tasker.schedules s
       set last_due_at = v_schedule.last_due_at, last_task_uuid = v_schedule.last_task_uuid, last_refusal = v_schedule.last_refusal,
           next_due_at = (select t from tasker.walk_cron(
                            v_schedule.cron, v_schedule.time_zone,
                            case v_schedule.catch_up when 'all' then coalesce(v_schedule.last_due_at, p_now) else p_now end, null, 1) t)
     where s.namespace = v_schedule.namespace and s.schedule = v_schedule.schedule;
    v_fired := v_fired + 1;
  end loop;
  return v_fired;
end
$$;
comment on function tasker.run_schedules(timestamptz, int) is
  'Creates the tasks of schedules whose time has come, each schedule by one caller. What can''t be created is told in last_refusal and rejected_transitions, and the next time is waited for.';
