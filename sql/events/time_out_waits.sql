create or replace function tasker.time_out_waits(p_timers tasker.timers[]) returns tasker.drive_counts
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  c_reason constant jsonb := jsonb_build_object('left_out', true, 'reason', 'the event it waited for did not come in time');
  v_steps  uuid[];
  v_came   uuid[];
  v_failed uuid[];
  v_left   uuid[];
  v_ready  uuid[];
begin
  v_steps := array(
    select t.workflow_step_uuid
      from unnest(p_timers) t
     cross join lateral (select c.sort_key from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = t.workflow_step_uuid and c.most_recent limit 1) c
     cross join lateral (select from tasker.event_waits w
                          where w.workflow_step_uuid = t.workflow_step_uuid and w.ended_at is null and w.due_at <= t.due_at limit 1) waits
     where t.kind = 'event_timeout' and c.sort_key = t.sort_key);
  if cardinality(v_steps) = 0 then
    return (0, 0, 0, 0, 0)::tasker.drive_counts;
  end if;
  perform tasker.lock_steps(v_steps);
  -- what came at the last moment has come
  select array_agg(s.workflow_step_uuid) filter (where came.at is not null),
         array_agg(s.workflow_step_uuid) filter (where came.at is null and coalesce(s.options #>> '{wait_for,on_timeout}', 'fail') = 'fail'),
         array_agg(s.workflow_step_uuid) filter (where came.at is null and s.options #>> '{wait_for,on_timeout}' = 'skip')
    into v_came, v_failed, v_left
    from unnest(v_steps) as asked(workflow_step_uuid)
   cross join lateral (select * from tasker.workflow_steps s where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
   cross join lateral (select * from tasker.event_waits w where w.workflow_step_uuid = asked.workflow_step_uuid limit 1) w
    left join lateral (select e.emitted_at as at from tasker.events e
                        where e.namespace = w.namespace and e.event = w.event and e.key = w.key limit 1) came on true;

  -- fails is for this time; unanswered stays until it waits anew, so that no trial of a circuit runs it without its event
  update tasker.workflow_steps s
     set options = s.options || jsonb_build_object('fails', e.error, 'unanswered', e.error)
    from tasker.event_waits w
   cross join lateral (select k.options #>> '{wait_for,timeout_seconds}' as seconds from tasker.workflow_steps k
                        where k.workflow_step_uuid = w.workflow_step_uuid limit 1) k
   cross join lateral (select jsonb_build_object('type', 'event_timeout', 'message',
                                                 format('event %s of %s did not come within %s s', w.event, w.key, k.seconds)) as error) e
   where s.workflow_step_uuid = any (v_failed) and w.workflow_step_uuid = s.workflow_step_uuid;
  perform tasker.drop_waits(v_failed || v_left);
  v_ready := array(select s.workflow_step_uuid from tasker.workflow_steps s
                    where s.workflow_step_uuid = any (v_failed) and s.unmet_dependencies <= 0)
             || tasker.leave_out(v_left, c_reason)
             || tasker.end_waits(v_came)
             || tasker.end_waits(v_steps, true);  -- those that are left run without it
  return tasker.drive_tasks(array(select distinct t.task_uuid from unnest(p_timers) t where t.workflow_step_uuid = any (v_steps)), v_ready,
                            array(select distinct t.task_uuid from unnest(p_timers) t where t.workflow_step_uuid = any (v_left)));
end
$$;
comment on function tasker.time_out_waits(tasker.timers[]) is
  'What becomes of steps whose event did not come in time: the engine fails them, they are left out, or run without it. The caller holds the locks of their tasks.';
