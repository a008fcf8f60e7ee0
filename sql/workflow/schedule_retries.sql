create or replace function tasker.schedule_retries(p_moves tasker.step_move[]) returns tasker.step_move[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_moves tasker.step_move[];
begin
  with delayed as materialized (
    select m.*, case when state.phase in ('waiting_retry', 'circuit_open') then
                  coalesce(coalesce(m.metadata ->> 'retry_after', report.metadata ->> 'retry_after')::double precision * interval '1 second',
                         case when state.phase = 'circuit_open'
                              then coalesce((select b.cooldown from tasker.circuit_breakers b where b.tool = coalesce(s.tool, s.handler)), interval '60 seconds') end,
                         tasker.retry_delay(s.attempts, s.base_delay, s.max_delay, s.jitter)) end as delay,
           s.attempts, state.phase in ('waiting_retry', 'circuit_open') as waits
      from unnest(p_moves) m
     cross join lateral (select * from tasker.workflow_steps s
                          where s.workflow_step_uuid = m.workflow_step_uuid limit 1) s
     cross join lateral (select t.metadata from tasker.workflow_step_transitions t
                          where t.workflow_step_uuid = m.workflow_step_uuid and t.most_recent limit 1) report
      join tasker.lifecycle_states state on state.lifecycle = m.lifecycle and state.state = m.to_state
  ), timed as materialized (
    select d.*, case when d.waits then tasker.clock() + d.delay end as due_at from delayed d
  ), set_timers as (
    insert into tasker.timers (due_at, kind, task_uuid, namespace, workflow_step_uuid, sort_key)
    select t.due_at, 'retry', t.task_uuid, t.namespace, t.workflow_step_uuid, t.sort_key
      from timed t where t.waits
  )
  select array_agg((t.transition_uuid, t.workflow_step_uuid, t.task_uuid, t.namespace, t.lifecycle, t.from_state, t.event,
                    t.to_state, t.sort_key, t.most_recent,
                    coalesce(t.metadata, '{}') || jsonb_build_object('attempt', t.attempts)
                    || case when t.waits then jsonb_build_object('delay_seconds', extract(epoch from t.delay),
                                                                 'next_retry_at', t.due_at) else '{}' end
                   )::tasker.step_move order by t.workflow_step_uuid)
    into v_moves
    from timed t;
  return v_moves;
end
$$;
comment on function tasker.schedule_retries(tasker.step_move[]) is
  'Sets the timer of every move into a waiting_retry phase and writes delay and due time into its metadata. A worker may have asked for a delay of its own.';
