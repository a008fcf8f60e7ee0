create or replace view tasker.attached_overview as
select t.attached_table, t.entity_key, t.namespace, t.lifecycle, t.to_state as state, s.phase, s.is_terminal, t.event,
       t.created_at as state_since, t.sort_key, t.attachment_uuid, a.detached_at
  from tasker.attached_transitions t
  join tasker.attached_lifecycles a on a.attachment_uuid = t.attachment_uuid
  join tasker.lifecycle_states s on s.lifecycle = t.lifecycle and s.state = t.to_state
 where t.most_recent;
comment on view tasker.attached_overview is 'One row for each row of an attached table with its current state; rows that were deleted and tables that were detached included.';
comment on column tasker.attached_overview.attached_table is 'The table.';
comment on column tasker.attached_overview.entity_key is 'Key of the row.';
comment on column tasker.attached_overview.namespace is 'Namespace.';
comment on column tasker.attached_overview.lifecycle is 'The rules it follows.';
comment on column tasker.attached_overview.state is 'Current state.';
comment on column tasker.attached_overview.phase is 'Canonical phase of that state.';
comment on column tasker.attached_overview.is_terminal is 'Whether it has ended.';
comment on column tasker.attached_overview.event is 'What led to it.';
comment on column tasker.attached_overview.state_since is 'Since when.';
comment on column tasker.attached_overview.sort_key is 'Position in its log.';
comment on column tasker.attached_overview.attachment_uuid is 'The attachment.';
comment on column tasker.attached_overview.detached_at is 'When the lifecycle was taken off the table.';
