create or replace function tasker.lock_schedule_or_refuse(p_schedule text, p_namespace text) returns tasker.schedules
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_schedule tasker.schedules;
begin
  select s.* into v_schedule from tasker.schedules s
   where s.namespace = p_namespace and s.schedule = p_schedule and tasker.may_see(s.namespace) for no key update;
  if not found then
    perform tasker.raise_error('TK404', format('there is no schedule %s.%s', coalesce(p_namespace, 'null'), coalesce(p_schedule, 'null')),
                               jsonb_build_object('namespace', p_namespace, 'schedule', p_schedule),
                               'See them in tasker.schedules; schedule_tasks makes one.');
  end if;
  return v_schedule;
end
$$;
comment on function tasker.lock_schedule_or_refuse(text, text) is 'Locks a schedule, or TK404.';
