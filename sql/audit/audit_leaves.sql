create or replace function tasker.audit_leaves(
  p_change_ids int8multirange,
  out place     bigint,
  out change_id bigint,
  out log       text,
  out row_uuid  uuid,
  out leaf      bytea
) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
  select row_number() over (order by x.change_id, x.place), x.change_id, x.log, x.row_uuid, x.leaf
    from (
      with sealed as materialized (
        select c.* from tasker.changes c
         where c.change_id between lower(p_change_ids) and upper(p_change_ids) - 1
           and p_change_ids @> c.change_id
      )
      select c.change_id, 0 as place, 'change' as log, null::uuid as row_uuid, tasker.audit_hash(tasker.audit_content(c::tasker.changes)) as leaf
        from sealed c
      union all
      select c.change_id, u.place, c.log, u.row_uuid, r.leaf
        from sealed c
       cross join lateral unnest(c.transition_uuids) with ordinality as u(row_uuid, place)
        left join lateral (
          select tasker.audit_hash(tasker.audit_content(t)) as leaf
            from tasker.task_transitions t where c.log = 'task' and t.task_transition_uuid = u.row_uuid
          union all
          select tasker.audit_hash(tasker.audit_content(t))
                 || case when a.workflow_step_transition_uuid is null then '' else tasker.audit_hash(tasker.audit_content(a)) end
            from tasker.workflow_step_transitions t
            left join tasker.workflow_step_result_audit a
              on a.workflow_step_uuid = t.workflow_step_uuid and a.workflow_step_transition_uuid = t.workflow_step_transition_uuid
           where c.log = 'step' and t.workflow_step_transition_uuid = u.row_uuid
          union all
          select tasker.audit_hash(tasker.audit_content(t))
            from tasker.worker_transitions t where c.log = 'worker' and t.worker_transition_uuid = u.row_uuid
          union all
          select tasker.audit_hash(tasker.audit_content(t))
            from tasker.circuit_breaker_transitions t where c.log = 'circuit_breaker' and t.circuit_breaker_transition_uuid = u.row_uuid
          union all
          select tasker.audit_hash(tasker.audit_content(t))
            from tasker.attached_transitions t where c.log = 'attached' and t.attached_transition_uuid = u.row_uuid
          union all
          select tasker.audit_hash(tasker.audit_content(t))
            from tasker.rejected_transitions t where c.log = 'rejection' and t.rejected_transition_uuid = u.row_uuid
          union all
          select tasker.audit_hash(tasker.audit_content(t))
            from tasker.audit_events t where c.log = 'event' and t.audit_event_uuid = u.row_uuid
          union all
          select tasker.audit_hash(tasker.audit_content(t))
            from tasker.login_binding_changes t where c.log = 'binding' and t.login_binding_change_uuid = u.row_uuid
          union all
          -- of what is archived the content itself is kept
          select tasker.audit_hash(t.content) || coalesce(tasker.audit_hash(t.audit_content), '')
            from tasker.archived_rows t
           where c.log in ('task', 'step') and t.row_uuid = u.row_uuid and t.month = tasker.uuid_month(u.row_uuid)
          limit 1) r on true
    ) x
$$;
comment on function tasker.audit_leaves(int8multirange) is
  'The digests of these changes and, behind each, of its rows as they are now, in the order in which they are sealed; null where a row is missing.';
