create or replace function tasker.create_step_result_audit() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from appended a
                  where (select true from tasker.lifecycle_transitions r
                          where r.lifecycle = a.lifecycle and r.from_state = a.from_state and r.event = a.event and r.reports_result limit 1)) then
    return null;  -- two of three times nothing is reported, and to begin an insert into nine indexes is not free
  end if;
  insert into tasker.workflow_step_result_audit
    (workflow_step_result_audit_uuid, workflow_step_uuid, workflow_step_transition_uuid, task_uuid, namespace, worker_uuid, correlation_id, success, execution_time_ms)
  select tasker.uuid_at((select tasker.uuid_series()), row_number() over ()), a.workflow_step_uuid, a.workflow_step_transition_uuid, a.task_uuid, a.namespace,
         (a.metadata ->> 'worker_uuid')::uuid,
         (a.metadata ->> 'correlation_id')::uuid,
         -- what a worker reports says so itself
         coalesce((a.metadata ->> 'success')::boolean,
                  not (select s.is_error or s.phase = 'reported_failure' from tasker.lifecycle_states s
                        where s.lifecycle = a.lifecycle and s.state = a.to_state)),
         (a.metadata ->> 'execution_time_ms')::bigint
    from appended a
   where (select r.reports_result from tasker.lifecycle_transitions r
           where r.lifecycle = a.lifecycle and r.from_state = a.from_state
             and r.event = a.event and r.to_state = a.to_state limit 1);
  return null;
end
$$;
comment on function tasker.create_step_result_audit() is
  'Seed 004: writes the audit row of every reported result in the transaction that reports it, with the attribution found in the transition''s metadata.';

create or replace trigger trg_step_result_audit
  after insert on tasker.workflow_step_transitions
  referencing new table as appended
  for each statement execute function tasker.create_step_result_audit();
comment on trigger trg_step_result_audit on tasker.workflow_step_transitions is
  'Guarantees an audit row for every reported result (SOC2, seed 004).';
