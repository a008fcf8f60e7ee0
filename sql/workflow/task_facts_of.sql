create or replace function tasker.task_facts_of(p_task_uuid uuid) returns tasker.task_facts
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select row(t.total_steps, t.pending_steps, ready.steps,
             t.in_flight_steps + case when t.failed_steps > 0 then tasker.open_waits(t.task_uuid) else 0 end, t.waiting_retry_steps, t.satisfied_steps, t.failed_steps,
             -- asked from outside, every settled step counts as news
             t.satisfied_steps,
             to_regclass('pgmq.' || quote_ident('q_' || n.queue_name)) is null,
             t.failed_critical_steps, t.max_retries - t.retry_count,
             t.worker_count is null or exists (select from tasker.job_workers w where w.task_uuid = t.task_uuid),
             t.final_validation, t.failed_steps > 0 and t.failed_critical_steps = 0 and tasker.cleans_up(t.task_uuid))::tasker.task_facts
    from tasker.tasks t
    join tasker.task_namespaces n on n.namespace = t.namespace
   cross join lateral (
      select count(*)::int as steps
        from tasker.hand_outs(array(select s.workflow_step_uuid from tasker.workflow_steps s
                                     where s.task_uuid = t.task_uuid and s.unmet_dependencies <= 0))) ready
   where t.task_uuid = p_task_uuid
$$;
comment on function tasker.task_facts_of(uuid) is 'The facts that the guards of a task read, looked up for one task.';
