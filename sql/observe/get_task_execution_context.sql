create or replace function tasker.get_task_execution_context(
  p_task_uuid uuid,
  out task_uuid            uuid,
  out state                text,
  out total_steps          int,
  out pending_steps        int,
  out in_flight_steps      int,
  out waiting_retry_steps  int,
  out completed_steps      int,
  out failed_steps         int,
  out ready_steps          int,
  out execution_status     text,
  out recommended_action   text,
  out completion_percentage numeric,
  out health_status        text
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select o.task_uuid, o.state, o.total_steps, o.pending_steps, o.in_flight_steps, o.waiting_retry_steps, o.satisfied_steps,
         o.failed_steps, (f.facts).ready_steps, x.status,
         case x.status when 'has_ready_steps' then 'execute_ready_steps' when 'processing' then 'wait_for_completion'
                       when 'waiting_for_retry' then 'wait_for_retry' when 'blocked_by_failures' then 'handle_failures'
                       when 'all_complete' then 'finalize_task' else 'wait_for_dependencies' end,
         case when o.total_steps = 0 then 100 else round(100.0 * o.satisfied_steps / o.total_steps, 2) end,
         case when x.status = 'blocked_by_failures' then 'blocked'
              when o.waiting_retry_steps > 0 or o.failed_steps > 0 then 'recovering' else 'healthy' end
    from tasker.task_overview o
   cross join lateral (select tasker.task_facts_of(o.task_uuid) as facts) f
   cross join lateral (select case when o.satisfied_steps = o.total_steps then 'all_complete'
                                   when (f.facts).ready_steps > 0 then 'has_ready_steps'
                                   when o.in_flight_steps > 0 then 'processing'
                                   when o.waiting_retry_steps > 0 then 'waiting_for_retry'
                                   when o.failed_steps > 0 then 'blocked_by_failures'
                                   else 'waiting_for_dependencies' end as status) x
   where o.task_uuid = p_task_uuid and tasker.may_see(o.namespace)
$$;
comment on function tasker.get_task_execution_context(uuid) is
  'Seed 004: where a task stands. A task whose failed steps still have retries is recovering, one that nothing can move is blocked.';
