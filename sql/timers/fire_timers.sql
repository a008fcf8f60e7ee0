create or replace function tasker.fire_timers(p_timers tasker.timers[]) returns tasker.drive_counts
language plpgsql
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_tasks   uuid[];
  v_steps   uuid[];
  v_moves   tasker.step_move[];
  v_counts  tasker.drive_counts := (0, 0, 0, 0, 0);
  v_one     tasker.drive_counts;
begin
  v_tasks := array(select distinct t.task_uuid from unnest(p_timers) t where t.kind in ('retry', 'drive', 'task_timeout', 'task_retry', 'event_timeout', 'cancel_child'));
  perform tasker.lock_tasks(v_tasks);
  if exists (select from unnest(p_timers) t where t.kind in ('drive', 'task_timeout')) then
    p_timers := tasker.put_back_timers(p_timers);
  end if;

  -- a timer is for one visit of a state: a step that has moved on since has nothing to wait for
  v_steps := array(
    select t.workflow_step_uuid
      from unnest(p_timers) t
     cross join lateral (select c.sort_key from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = t.workflow_step_uuid and c.most_recent limit 1) c
     where t.kind = 'retry' and c.sort_key = t.sort_key);
  perform tasker.lock_steps(v_steps);
  v_moves := array(select m from tasker.step_moves(v_steps, 'retry_due') m);
  perform tasker.append_step_transitions(v_moves);
  perform tasker.resend_steps(v_steps);  -- where the way back to work does not lead through a ready state
  v_counts := tasker.drive_tasks(array(select distinct m.task_uuid from unnest(v_moves) m),
                                 array(select m.workflow_step_uuid from unnest(v_moves) m));

  v_one := tasker.time_out_waits(p_timers);
  v_counts.steps_enqueued := v_counts.steps_enqueued + v_one.steps_enqueued;
  v_counts.tasks_moved := v_counts.tasks_moved + v_one.tasks_moved;
  -- both may end several tasks, so what belongs to either is locked before, in one order
  perform tasker.lock_work(array(select distinct t.task_uuid from unnest(p_timers) t where t.kind in ('task_timeout', 'cancel_child')));
  perform tasker.time_out_tasks(array(select distinct t.task_uuid from unnest(p_timers) t where t.kind = 'task_timeout'));
  perform tasker.cancel_children(p_timers);
  perform tasker.retry_tasks(p_timers);
  perform tasker.requeue_steps(p_timers);
  perform tasker.look_at_limits(p_timers);

  -- tasks that somebody moved by hand and left: a living owner keeps them, anybody else's are driven on
  v_tasks := array(
    select distinct t.task_uuid
      from unnest(p_timers) t
     cross join lateral (select c.sort_key from tasker.task_transitions c
                          where c.task_uuid = t.task_uuid and c.most_recent limit 1) c
     where t.kind = 'drive' and c.sort_key = t.sort_key);
  if cardinality(v_tasks) > 0 then
    insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
    select tasker.clock() + interval '30 seconds', t.kind, t.task_uuid, t.namespace, t.sort_key
      from unnest(p_timers) t
     where t.kind = 'drive' and t.task_uuid = any (tasker.foreign_owned(v_tasks, null));
    v_tasks := array(select t from unnest(v_tasks) t where t <> all (tasker.foreign_owned(v_tasks, null)));
    perform tasker.take_over_tasks(v_tasks, null);
    v_one := tasker.drive_tasks(v_tasks);
    v_counts.steps_enqueued := v_counts.steps_enqueued + v_one.steps_enqueued;
    v_counts.tasks_moved := v_counts.tasks_moved + v_one.tasks_moved;
  end if;
  return v_counts;
end
$$;
comment on function tasker.fire_timers(tasker.timers[]) is
  'Does what these timers are for, all of a kind at once.';
