create or replace function tasker.backfill_schedule(
  p_schedule     text,
  p_since        timestamptz,
  p_until        timestamptz,
  p_reason       text,
  p_requested_by text,
  p_namespace    text default 'default',
  p_dry_run      boolean default true,
  out due_at     timestamptz,
  out task_uuid  uuid,
  out is_new     boolean
) returns setof record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  c_most     constant int := 10000;
  v_schedule tasker.schedules;
  v_times    timestamptz[];
begin
  perform tasker.refuse_without_reason(p_reason, p_requested_by);
  v_schedule := tasker.lock_schedule_or_refuse(p_schedule, p_namespace);
  if coalesce(p_since > p_until, true) or p_until > tasker.clock() then
    perform tasker.raise_error('TK400', 'a schedule is backfilled from a time to a later one that has passed',
                               jsonb_build_object('since', p_since, 'until', p_until), 'What is to come, comes by itself.');
  end if;
  v_times := array(select t from tasker.walk_cron(v_schedule.cron, v_schedule.time_zone, p_since - interval '1 second', p_until, c_most + 1) t);
  if cardinality(v_times) > c_most then
    perform tasker.raise_error('TK400', format('more than %s times of schedule %s lie in that period', c_most, p_schedule),
                               jsonb_build_object('since', p_since, 'until', p_until, 'most', c_most, 'reached', v_times[c_most]),
                               'Backfill it in several calls.');
  end if;
  foreach due_at in array v_times loop
    task_uuid := (select t.task_uuid from tasker.tasks t
                   where t.namespace = p_namespace
                     and t.idempotency_key = tasker.schedule_key(p_schedule, due_at));
    is_new := task_uuid is null;
    if is_new and not p_dry_run then
      task_uuid := tasker.create_scheduled_task(v_schedule, due_at);
    end if;
    return next;
  end loop;
  if not p_dry_run then
    insert into tasker.audit_events (event, subject, namespace, requested_by, reason, detail)
    values ('schedule_backfilled', p_schedule, p_namespace, p_requested_by, p_reason,
            jsonb_build_object('since', p_since, 'until', p_until, 'times', cardinality(v_times)));
  end if;
end
$$;
comment on function tasker.backfill_schedule(text, timestamptz, timestamptz, text, text, text, boolean) is
  'The tasks of a schedule for times that passed, both ends included: those that are there and, unless p_dry_run, those that are missing, created now. Safe to repeat: one time has one task.';
