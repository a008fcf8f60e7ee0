create or replace function tasker.tick(p_limit int default 1000) returns tasker.tick_counts
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
  v_now    timestamptz := tasker.clock();
  v_due    tasker.timers[];
  v_counts tasker.tick_counts := row(0, 0, 0, 0, null::timestamptz);
  v_drive  tasker.drive_counts;
begin
  if p_limit is null or p_limit not between 1 and 100000 then
    perform tasker.raise_error('TK400', format('can''t fire %s timers at once', coalesce(p_limit::text, 'null')),
                               jsonb_build_object('limit', p_limit), 'Fire 1 to 100,000 timers in one call.');
  end if;

  v_due := tasker.take_due_timers(v_now, p_limit);
  if v_due is not null then
    v_drive := tasker.fire_timers(v_due);
    v_counts.timers_fired := cardinality(v_due);
    v_counts.steps_enqueued := v_drive.steps_enqueued;
    v_counts.tasks_moved := v_drive.tasks_moved;
  end if;

  perform tasker.miss_heartbeats(v_now, p_limit);
  v_counts.leases_expired := tasker.expire_claims(v_now, p_limit);
  perform tasker.cool_breakers(v_due);
  perform tasker.purge_expired(p_limit);
  perform tasker.purge_events(p_limit);
  v_counts.timers_fired := v_counts.timers_fired + tasker.run_schedules(v_now, p_limit);

  v_counts.next_due_at := tasker.next_due_at();
  return v_counts;
end
$$;
comment on function tasker.tick(int) is
  'Fires what is due: backoffs, timeouts, leases, missed heartbeats, cooldowns, tasks left where they could go on, schedules, answers to forget. Any number of callers may run it at once; next_due_at tells when to come again. A bound login does this for its namespaces alone.';
