create or replace function tasker.record_task_changes() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_told boolean;
begin
  insert into tasker.changes (log, transition_uuids)
  select 'task', array_agg(a.task_transition_uuid order by a.task_uuid, a.sort_key)
    from appended a
  having count(*) > 0
  -- one look at a tiny table decides whether anybody wants to hear of it
  returning exists (select from tasker.task_namespaces n where n.notifications in ('tasks', 'all')) into v_told;

  if v_told then
    perform tasker.notify_chunked('tasker_task_state', array_agg(
              jsonb_build_object('task_uuid', a.task_uuid, 'namespace', a.namespace, 'from_state', a.from_state,
                                 'to_state', a.to_state, 'event', a.event, 'sort_key', a.sort_key,
                                 'correlation_id', t.correlation_id)
              order by a.task_uuid, a.sort_key))
       from appended a
       join tasker.task_namespaces n on n.namespace = a.namespace and n.notifications in ('tasks', 'all')
       left join lateral (select t.correlation_id from tasker.tasks t where t.task_uuid = a.task_uuid limit 1) t on true;
  end if;
  return null;
end
$$;
comment on function tasker.record_task_changes() is
  'Seed 004 PublishTransitionEventAction for tasks: one row of the change feed a statement, and pg_notify where the namespace wants it.';

create or replace trigger record_changes
  after insert on tasker.task_transitions
  referencing new table as appended
  for each statement execute function tasker.record_task_changes();
comment on trigger record_changes on tasker.task_transitions is 'Publishes what was appended.';

create or replace function tasker.record_step_changes() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_told boolean;
begin
  insert into tasker.changes (log, transition_uuids)
  select 'step', array_agg(a.workflow_step_transition_uuid order by a.workflow_step_uuid, a.sort_key)
    from appended a
  having count(*) > 0
  returning exists (select from tasker.task_namespaces n where n.notifications = 'all') into v_told;

  if v_told then
    perform tasker.notify_chunked('tasker_step_state', array_agg(
              jsonb_build_object('workflow_step_uuid', a.workflow_step_uuid, 'task_uuid', a.task_uuid,
                                 'namespace', a.namespace, 'from_state', a.from_state, 'to_state', a.to_state,
                                 'event', a.event, 'sort_key', a.sort_key, 'correlation_id', t.correlation_id)
              order by a.workflow_step_uuid, a.sort_key))
       from appended a
       join tasker.task_namespaces n on n.namespace = a.namespace and n.notifications = 'all'
       left join lateral (select t.correlation_id from tasker.tasks t where t.task_uuid = a.task_uuid limit 1) t on true;
  end if;
  return null;
end
$$;
comment on function tasker.record_step_changes() is
  'Seed 004 PublishTransitionEventAction for steps: one row of the change feed a statement, and pg_notify where the namespace wants it.';

create or replace trigger record_changes
  after insert on tasker.workflow_step_transitions
  referencing new table as appended
  for each statement execute function tasker.record_step_changes();
comment on trigger record_changes on tasker.workflow_step_transitions is 'Publishes what was appended.';
