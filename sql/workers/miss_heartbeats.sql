create or replace function tasker.miss_heartbeats(p_now timestamptz, p_limit int) returns int
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_worker tasker.workers;
  v_claims uuid[];
  v_state  text;
  v_moved  int := 0;
  v_bound  text[] := tasker.bound_namespaces();
begin
  for v_worker in
    select w.* from tasker.workers w
      join tasker.worker_transitions t on t.worker_uuid = w.worker_uuid and t.most_recent
      join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state
     where not s.is_terminal and (v_bound is null or w.namespaces <@ v_bound)
       and case s.phase
             when 'busy' then w.last_heartbeat_at <= p_now - w.heartbeat_interval * w.max_missed_heartbeats
             -- as long again since it was given up, so that a clock that jumps ahead ends nobody at once
             when 'unresponsive' then coalesce((t.metadata ->> 'missed_at')::timestamptz, w.last_heartbeat_at)
                                      <= p_now - w.heartbeat_interval * w.max_missed_heartbeats
             -- nothing depends on a worker that holds nothing: only tidied up
             else w.last_heartbeat_at <= p_now - greatest(interval '1 day', w.heartbeat_interval * w.max_missed_heartbeats) end
     order by w.worker_uuid
     limit p_limit
       for no key update of w skip locked
  loop
    if tasker.worker_phase(v_worker.worker_uuid) = 'unresponsive' then
      -- another caller may have given it up a moment ago
      continue when exists (select from tasker.worker_transitions t where t.worker_uuid = v_worker.worker_uuid and t.most_recent
                               and (t.metadata ->> 'missed_at')::timestamptz > p_now - v_worker.heartbeat_interval * v_worker.max_missed_heartbeats);
      v_state := tasker.move_worker(v_worker.worker_uuid, 'worker_expire', jsonb_build_object('last_heartbeat_at', v_worker.last_heartbeat_at));
    else
      -- its work goes to others: the leases end now. tick waits for nobody: while one of its claims is in other hands, the
      -- worker is left to the next tick
      v_claims := array(select c.claim_uuid from tasker.step_claims c where c.worker_uuid = v_worker.worker_uuid for update skip locked);
      continue when cardinality(v_claims) < (select count(*) from tasker.step_claims c where c.worker_uuid = v_worker.worker_uuid);
      update tasker.step_claims c set lease_expires_at = least(c.lease_expires_at, p_now) where c.claim_uuid = any (v_claims);
      v_state := coalesce(tasker.move_worker(v_worker.worker_uuid, 'worker_miss', jsonb_build_object('last_heartbeat_at', v_worker.last_heartbeat_at, 'missed_at', p_now)),
                          tasker.move_worker(v_worker.worker_uuid, 'worker_shutdown', jsonb_build_object('reason', 'missed its heartbeats')));
    end if;
    v_moved := v_moved + (v_state is not null)::int;  -- a supervised worker that waits or is paused has no way to end by itself
  end loop;
  if v_moved > 0 then
    perform tasker.wake_waiting_jobs();
  end if;
  return v_moved;
end
$$;
comment on function tasker.miss_heartbeats(timestamptz, int) is
  'Busy workers that missed their heartbeats become unresponsive and lose what they hold; those that stay silent as long again are ended (seed 000). Idle ones are ended after a day.';
