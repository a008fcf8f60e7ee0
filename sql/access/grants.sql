-- Who may do what. Everything is taken away first, so that a grant which left this file leaves the database too.
revoke all on schema tasker from public;
revoke all on all tables in schema tasker from public, tasker_client, tasker_worker, tasker_operator, tasker_auditor, tasker_monitor;
revoke all on all sequences in schema tasker from public;
revoke all on all functions in schema tasker from public, tasker_client, tasker_worker, tasker_operator, tasker_auditor, tasker_monitor;
alter default privileges for role tasker_owner revoke execute on functions from public;
alter default privileges for role tasker_owner in schema tasker revoke all on tables from public;

grant usage on schema tasker to tasker_client, tasker_worker, tasker_operator, tasker_auditor, tasker_monitor;

-- rules are no secret
grant select on tasker.error_catalogue, tasker.lifecycles, tasker.lifecycle_states, tasker.lifecycle_events,
                tasker.lifecycle_transitions, tasker.lifecycle_phases, tasker.engine_operations, tasker.guards,
                tasker.transition_actions, tasker.vocabularies, tasker.public_functions
  to tasker_client, tasker_worker, tasker_operator, tasker_auditor, tasker_monitor;
grant select on tasker.test_clock to tasker_client, tasker_worker, tasker_operator, tasker_auditor, tasker_monitor;  -- clock() reads it
grant execute on function tasker.lifecycle_diagram(text, text), tasker.schema_version(), tasker.clock()
  to tasker_client, tasker_worker, tasker_operator, tasker_auditor, tasker_monitor;
-- which rows a bound login sees is asked for whoever reads
grant execute on function tasker.bound_namespaces()
  to tasker_client, tasker_worker, tasker_operator, tasker_auditor, tasker_monitor;
grant execute on function tasker.may_see_worker(uuid) to tasker_operator, tasker_auditor, tasker_monitor;

-- reading work
grant select on tasker.task_overview, tasker.step_overview, tasker.timeline, tasker.task_namespaces, tasker.named_tasks,
                tasker.named_steps, tasker.tasks, tasker.workflow_steps, tasker.workflow_step_edges, tasker.task_transitions,
                tasker.workflow_step_transitions, tasker.unique_keys
  to tasker_client, tasker_operator;
grant execute on function
    tasker.task_status(uuid), tasker.explain_task(uuid), tasker.allowed_events(text, uuid), tasker.task_state(uuid),
    tasker.step_state(uuid), tasker.get_step_readiness_status(uuid, uuid[]), tasker.get_task_execution_context(uuid),
    tasker.changes_after(text, int), tasker.current_cursor(), tasker.find_tasks(text, text, text, text, uuid, int),
    tasker.task_revision(uuid), tasker.step_spans(uuid, int, int), tasker.allowed_commands(text, text)
  to tasker_client, tasker_operator, tasker_auditor;
-- a result in full, for whoever sees it in views or gets it as an input
grant execute on function tasker.load_result(uuid, uuid) to tasker_client, tasker_worker, tasker_operator, tasker_auditor;

-- clients create
grant execute on function
    tasker.register_template(jsonb, text), tasker.ensure_namespace(text, text), tasker.create_tasks(jsonb),
    tasker.create_task(text, jsonb, text, text, text, uuid, int, uuid, jsonb, text, boolean, text, timestamptz, text, double precision, double precision, double precision, text),
    tasker.submit_tasks(jsonb, text),
    tasker.create_task_from_graph(jsonb, jsonb, text, text, uuid, int, uuid, jsonb, text, boolean, timestamptz, text),
    tasker.cancel_task(uuid, text, text, text),
    tasker.schedule_tasks(text, text, text, jsonb, text, text, text, text, jsonb, int, text, text, text, text),
    tasker.cron_times(text, text, timestamptz, timestamptz, int),
    -- asks for the right to the command itself
    tasker.command_all(text, jsonb, text, text, boolean, int)
  to tasker_client, tasker_operator;
grant select on tasker.schedules, tasker.events, tasker.event_waits, tasker.child_tasks to tasker_client, tasker_operator;
-- whoever does the work may tell that something happened
grant execute on function tasker.emit_event(text, text, jsonb, text, text, interval), tasker.get_event(text, text, text)
  to tasker_client, tasker_worker, tasker_operator;

-- workers claim, report and drive; the views let them find claims whose answer was lost with a connection
grant select on tasker.task_overview, tasker.step_overview to tasker_worker;
grant execute on function
    tasker.register_worker(text, text[], int, text, text[], interval, int, text[], text), tasker.worker_heartbeat(uuid), tasker.worker_state(uuid), tasker.is_drained(uuid), tasker.shutdown_worker(uuid, text, text),
    tasker.claim_steps(uuid, text[], int, interval), tasker.complete_steps(jsonb),
    tasker.report_and_claim(uuid, jsonb, text[], int, interval),
    tasker.complete_step(uuid, uuid, jsonb, bigint, text), tasker.fail_step(uuid, uuid, jsonb, text, interval, bigint, text),
    tasker.report_validation(uuid, uuid, boolean, jsonb), tasker.extend_leases(uuid, interval), tasker.held_claims(uuid),
    tasker.save_checkpoint(uuid, uuid, jsonb), tasker.find_tasks(text, text, text, text, uuid, int),
    tasker.breaker_permit(text, interval), tasker.breaker_allows(text), tasker.breaker_state(text),
    tasker.record_breaker_result(text, boolean, jsonb, uuid, text), tasker.orchestrate(uuid, int), tasker.tick(int),
    tasker.register_processor(text, interval), tasker.processor_heartbeat(uuid, interval),
    tasker.transition_task(uuid, text, uuid, jsonb, text), tasker.transition_with_ownership(uuid, text, text, uuid, jsonb)
  to tasker_worker, tasker_operator;
-- which claims it holds, and by which rules the steps go
grant select (workflow_step_uuid, lifecycle, worker_uuid, claim_uuid) on tasker.workflow_steps to tasker_worker;

-- operators recover
grant execute on function
    tasker.give_up_task(uuid, text, text, text), tasker.resolve_task(uuid, text, text, text), tasker.reset_task(uuid, text, text, text),
    tasker.resume_task(uuid, text, text, text), tasker.pass_validation(uuid, text, text, text), tasker.fail_validation(uuid, text, text, text),
    tasker.configure_tool(text, interval, text), tasker.set_limit(text, text, int, int, interval, text, text), tasker.remove_limit(text, text, text, text),
    tasker.cancel_step(uuid, text, text, text), tasker.skip_step(uuid, text, text, text), tasker.retry_step(uuid, text, text, text),
    tasker.reset_step(uuid, text, text, text), tasker.resolve_step(uuid, text, text, jsonb, text), tasker.transition_step(uuid, text, jsonb, text),
    tasker.start_worker(uuid, text, text, text), tasker.pause_worker(uuid, text, text, text), tasker.resume_worker(uuid, text, text, text), tasker.terminate_worker(uuid, text, text, text), tasker.drain_worker(uuid, text, text, text),
    tasker.configure_breaker(text, int, interval, int, int, text, text), tasker.reset_breaker(text, text, text, text),
    tasker.pause_schedule(text, text, text, text, text), tasker.resume_schedule(text, text, text, text, text),
    tasker.remove_schedule(text, text, text, text, text), tasker.backfill_schedule(text, timestamptz, timestamptz, text, text, text, boolean),
    tasker.recover(boolean, uuid, text, text), tasker.purge_expired(int), tasker.define_vocabulary(jsonb), tasker.check_consistency(uuid, boolean), tasker.find_stuck(interval),
    tasker.set_namespace_notifications(text, text), tasker.set_payload_limits(text, int, int), tasker.pause_namespace(text, text, text, text), tasker.resume_namespace(text, text, text, text),
    tasker.diagnose(interval, interval), tasker.diagnose_schema(), tasker.diagnose_work(interval, interval), tasker.diagnose_server(interval),
    tasker.refuse_bound_login(text)  -- diagnose runs as the caller, who sees the sessions that he may see; it only raises
  to tasker_operator;
grant select on tasker.workers, tasker.worker_transitions, tasker.worker_overview, tasker.job_workers, tasker.circuit_breakers,
                tasker.circuit_breaker_transitions, tasker.breaker_overview, tasker.processors, tasker.step_claims, tasker.work_queues, tasker.handler_waits, tasker.timers, tasker.rejected_transitions, tasker.tools,
                tasker.limits, tasker.limit_slots, tasker.limit_waits, tasker.limit_overview,
                tasker.schema_info
  to tasker_operator, tasker_monitor;
-- contents: partial results, stored answers
grant select on tasker.step_checkpoints, tasker.idempotency_keys to tasker_operator;
grant select on tasker.step_payloads to tasker_operator, tasker_auditor;

-- auditors read evidence
grant select on tasker.workflow_step_result_audit, tasker.audit_records, tasker.rejected_transitions, tasker.timeline,
                tasker.task_transitions, tasker.workflow_step_transitions, tasker.worker_transitions,
                tasker.circuit_breaker_transitions, tasker.task_overview, tasker.schema_info
  to tasker_auditor, tasker_operator;
grant execute on function
    tasker.get_step_audit_history(uuid, uuid), tasker.get_task_audit_history(uuid), tasker.get_audit_by_worker(uuid, int),
    tasker.get_audit_by_correlation_id(uuid)
  to tasker_auditor, tasker_operator, tasker_client;
grant execute on function tasker.check_consistency(uuid, boolean) to tasker_auditor;
grant select on tasker.changes, tasker.audit_events, tasker.audit_seals, tasker.audit_counts, tasker.attached_transitions to tasker_auditor, tasker_operator;
grant execute on function tasker.verify_audit(bigint), tasker.audit_digest(bigint), tasker.verify_digest(text)
  to tasker_auditor, tasker_operator;
grant select on tasker.retention_policies, tasker.legal_holds, tasker.archived_tasks, tasker.archived_rows, tasker.purged_tasks
  to tasker_auditor, tasker_operator;
grant execute on function
    tasker.report_summary(timestamptz, timestamptz, boolean), tasker.report_interventions(timestamptz, timestamptz),
    tasker.report_actions_of(text, timestamptz, timestamptz), tasker.report_worker(uuid, timestamptz, timestamptz, timestamptz, uuid, int),
    tasker.report_correlation(uuid), tasker.report_failures(timestamptz, timestamptz),
    tasker.report_completeness(timestamptz, timestamptz), tasker.report_population(text, timestamptz, timestamptz, timestamptz, uuid, int),
    tasker.report_sample(text, timestamptz, timestamptz, int, text), tasker.report_retention(timestamptz, timestamptz)
  to tasker_auditor, tasker_operator;
grant execute on function
    tasker.seal_audit(int), tasker.set_retention_policy(text, interval, interval, text, text), tasker.archive_tasks(text, text, int),
    tasker.purge_archive(text, text, int), tasker.hold_task(uuid, text, text), tasker.release_task(uuid, text, text)
  to tasker_operator;
-- runs with the caller's rights; a refusal that somebody makes up carries that somebody's login
grant execute on function
    tasker.attempt_command(text, text, text, text, text, jsonb), tasker.record_refusal(text, uuid, text, text, jsonb)
  to tasker_client, tasker_worker, tasker_operator, tasker_auditor, tasker_monitor;
grant select on tasker.login_bindings, tasker.login_binding_changes, tasker.access_rights, tasker.access_members, tasker.access_warnings
  to tasker_auditor, tasker_operator;
grant execute on function tasker.object_digests() to tasker_auditor, tasker_operator;

-- export, metrics
grant execute on function tasker.export_transitions(timestamptz, timestamptz, text) to tasker_client, tasker_operator, tasker_auditor;
grant execute on function
    tasker.prometheus_metrics(), tasker.live_overview(interval), tasker.metrics_transition_counts(timestamptz), tasker.metrics_time_in_state(timestamptz),
    tasker.metrics_states(timestamptz), tasker.metrics_rejections(timestamptz), tasker.metrics_queues(), tasker.metrics_waits(),
    tasker.metrics_step_durations(timestamptz), tasker.recent_throughput(int, text), tasker.count_tasks(text, int)
  to tasker_monitor, tasker_operator, tasker_auditor;
grant select on tasker.metrics_state_visits, tasker.metrics_transition_counts, tasker.metrics_time_in_state, tasker.metrics_states,
                tasker.metrics_rejections, tasker.metrics_idempotency, tasker.metrics_queues, tasker.metrics_waits, tasker.metrics_workers,
                tasker.metrics_step_durations
  to tasker_monitor, tasker_operator, tasker_auditor;

-- Lifecycles of users' own tables. Moving a row runs as the caller, who needs the right to change it; so the columns
-- that name a move are open, and what move_attached calls, none of which gives rights: raise_error only raises,
-- uuid_generate_v7 is the default of the key. What the rest of an entry holds is nobody's to say.
grant execute on function
    tasker.attach_lifecycle(regclass, text, text, text), tasker.record_attachment(regclass, text, text, text, text[]),
    tasker.detach_lifecycle(regclass), tasker.record_detachment(regclass), tasker.register_guard(text, regprocedure, text),
    tasker.start_attached(), tasker.keep_attached_key()
  to tasker_operator;
grant execute on function
    tasker.fire(regclass, text, text, jsonb, text, text), tasker.custom_guard_holds(text, text),
    tasker.refuse_attached(text, text, text, text, text, text),
    tasker.raise_error(text, text, jsonb, text), tasker.uuid_generate_v7()
  to tasker_client, tasker_worker, tasker_operator;
grant execute on function tasker.attached_state(regclass, text) to tasker_client, tasker_worker, tasker_operator, tasker_auditor;
grant insert (attached_table, entity_key, event, metadata) on tasker.attached_transitions to tasker_client, tasker_worker, tasker_operator;
grant select on tasker.attached_lifecycles, tasker.attached_transitions, tasker.attached_overview
  to tasker_client, tasker_worker, tasker_operator, tasker_auditor;

-- Views read as whoever asks, so that row security holds: what they show, and no more, of tables that a role may not read whole.
grant select (task_uuid, namespace, name, version, vocabulary, total_steps, pending_steps, in_flight_steps, waiting_retry_steps,
              satisfied_steps, failed_steps, priority, tags, correlation_id, parent_task_uuid, requested_by, context, created_at,
              started_at, completed_at, compensates_task_uuid)
  on tasker.tasks to tasker_worker, tasker_auditor;
grant select (task_uuid, lifecycle, to_state, most_recent, created_at) on tasker.task_transitions to tasker_worker;
grant select (workflow_step_uuid, task_uuid, namespace, name, handler, ordinal, attempts, max_attempts, unmet_dependencies, arguments,
              result_transition_uuid, created_at, left_out)
  on tasker.workflow_steps to tasker_worker;
grant select (workflow_step_transition_uuid, workflow_step_uuid, lifecycle, to_state, metadata, most_recent, created_at)
  on tasker.workflow_step_transitions to tasker_worker;
grant select (claim_uuid, lease_expires_at) on tasker.step_claims to tasker_client, tasker_worker;
grant select (workflow_step_uuid, event, key, ended_at) on tasker.event_waits to tasker_worker;
grant select (task_uuid, workflow_step_uuid, claim_uuid) on tasker.child_tasks to tasker_worker;
grant select (workflow_step_uuid, task_uuid, name) on tasker.workflow_steps to tasker_auditor;
grant select (worker_uuid, name, vocabulary, max_concurrent, last_heartbeat_at) on tasker.workers to tasker_auditor;
grant select (worker_uuid, open_steps) on tasker.step_claims to tasker_auditor;
grant select (endpoint, hits) on tasker.idempotency_keys to tasker_auditor, tasker_monitor;
grant select (task_uuid, namespace, lifecycle, event, to_state, sort_key, created_at) on tasker.task_transitions to tasker_monitor;
grant select (workflow_step_uuid, namespace, lifecycle, event, to_state, sort_key, created_at)
  on tasker.workflow_step_transitions to tasker_monitor;
grant select (attachment_uuid, entity_key, namespace, lifecycle, event, to_state, sort_key, created_at)
  on tasker.attached_transitions to tasker_monitor;
