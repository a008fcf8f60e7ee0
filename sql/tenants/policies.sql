-- What a bound login sees of the tables that it may read, which is what the views show too: they read as whoever asks.
-- The owner's functions are not held by this; they look for themselves (bound_namespaces).
do $make$
declare
  v_rule record;
begin
  for v_rule in select p.polname, p.polrelid::regclass as made_for from pg_catalog.pg_policy p
                  join pg_catalog.pg_class c on c.oid = p.polrelid and c.relnamespace = 'tasker'::regnamespace loop
    execute format('drop policy %I on %s', v_rule.polname, v_rule.made_for);
  end loop;

  for v_rule in
    select r.made_for, r.shows
      from (values
        ('task_namespaces', 'namespace = any (%s)'), ('named_tasks', 'namespace = any (%s)'),
        ('named_steps', 'exists (select from tasker.named_tasks k where k.named_task_uuid = named_steps.named_task_uuid)'),
        ('tasks', 'namespace = any (%s)'), ('task_transitions', 'namespace = any (%s)'),
        ('workflow_steps', 'namespace = any (%s)'), ('workflow_step_transitions', 'namespace = any (%s)'),
        ('workflow_step_edges', 'exists (select from tasker.tasks k where k.task_uuid = workflow_step_edges.task_uuid)'),
        ('workflow_step_result_audit', 'namespace = any (%s)'), ('rejected_transitions', 'namespace = any (%s)'),
        ('step_claims', 'namespace = any (%s)'), ('step_checkpoints', 'namespace = any (%s)'),
        ('step_payloads', 'namespace = any (%s)'), ('timers', 'namespace = any (%s)'), ('schedules', 'namespace = any (%s)'), ('unique_keys', 'namespace = any (%s)'),
        ('events', 'namespace = any (%s)'), ('event_waits', 'namespace = any (%s)'),
        ('child_tasks', 'exists (select from tasker.tasks k where k.task_uuid = child_tasks.task_uuid)'), ('work_queues', 'namespace = any (%s)'),
        ('handler_waits', 'namespace = any (%s)'),
        ('limits', 'namespace = any (%s)'), ('limit_waits', 'namespace = any (%s)'),
        ('limit_slots', 'exists (select from tasker.limits l where l.limit_uuid = limit_slots.limit_uuid)'),
        ('attached_lifecycles', 'namespace = any (%s)'), ('attached_transitions', 'namespace = any (%s)'),
        ('workers', 'namespaces <@ %s'), ('worker_transitions', 'tasker.may_see_worker(worker_uuid)'),
        ('job_workers', 'tasker.may_see_worker(worker_uuid)'),
        ('processors', 'namespaces <@ %s'),
        -- shared by all namespaces
        ('tools', 'false'), ('circuit_breakers', 'false'), ('circuit_breaker_transitions', 'false'),
        ('changes', 'false'), ('audit_seals', 'false'), ('audit_counts', 'false'),
        ('audit_events', 'namespace = any (%s)'), ('retention_policies', 'namespace = any (%s)'),
        ('archived_tasks', 'namespace = any (%s)'), ('purged_tasks', 'namespace = any (%s)'),
        ('archived_rows', 'exists (select from tasker.archived_tasks k where k.task_uuid = archived_rows.task_uuid)'),
        ('legal_holds', 'exists (select from tasker.tasks k where k.task_uuid = legal_holds.task_uuid)'
                        ' or exists (select from tasker.archived_tasks k where k.task_uuid = legal_holds.task_uuid)'),
        -- of the login itself
        ('idempotency_keys', 'login = session_user'), ('login_bindings', 'login = session_user'),
        ('login_binding_changes', 'login = session_user')) as r(made_for, shows)
  loop
    -- asked once for each statement, not for each row
    execute format('create policy bound_logins on tasker.%1$I for select using ((select tasker.bound_namespaces()) is null or %2$s)',
                   v_rule.made_for, format(v_rule.shows, '(select tasker.bound_namespaces())::text[]'));
    execute format('comment on policy bound_logins on tasker.%I is ''A bound login sees what is its own.''', v_rule.made_for);
    execute format('alter table tasker.%I enable row level security', v_rule.made_for);
  end loop;
  -- granted to nobody; without a policy not even pg_read_all_data reads them
  alter table tasker.sensitive_values enable row level security;
  alter table tasker.hash_salt enable row level security;
  -- the one table that others than the owner write into
  create policy bound_logins_move on tasker.attached_transitions for insert with check (
    (select tasker.bound_namespaces()) is null or namespace = any ((select tasker.bound_namespaces())::text[]));
  comment on policy bound_logins_move on tasker.attached_transitions is 'A bound login moves what is its own.';

  for v_rule in select c.oid::regclass as made_for from pg_catalog.pg_class c
                 where c.relnamespace = 'tasker'::regnamespace and c.relkind = 'v' loop
    execute format('alter view %s set (security_invoker = true)', v_rule.made_for);
  end loop;
end
$make$;
