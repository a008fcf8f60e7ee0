create or replace function tasker.with_session(p_row tasker.audit_rows) returns tasker.audit_action
language sql
stable
return (
  select row(p_row.at, p_row.log, p_row.row_uuid, p_row.subject, p_row.task_uuid, p_row.namespace, p_row.event, p_row.from_state,
             p_row.to_state, p_row.requested_by, p_row.reason, p_row.worker_uuid, c.login, c.acting_role, c.application_name,
             c.client_address, p_row.is_archived, p_row.detail)::tasker.audit_action
    from (values (1)) as one
    left join lateral (select c.* from tasker.changes c
                        where c.recorded_xid = p_row.recorded_xid and p_row.row_uuid = any (c.transition_uuids)
                        limit 1) c on true);
comment on function tasker.with_session(tasker.audit_rows) is 'A row of evidence with the session that wrote it.';
