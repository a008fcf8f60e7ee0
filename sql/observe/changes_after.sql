create or replace function tasker.changes_after(
  p_cursor text default null,
  p_limit  int default 1000,
  out cursor text,
  out change jsonb
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_xid      xid8;
  v_change   bigint;
  v_position int;
  v_bound    text[] := tasker.bound_namespaces();
begin
  if p_cursor is not null and p_cursor !~ '^[0-9]{1,19}:[0-9]{1,18}:[0-9]{1,9}$' then
    perform tasker.raise_error('TK400', format('%L is not a cursor', p_cursor), jsonb_build_object('cursor', p_cursor),
                               'Give a cursor that changes_after or current_cursor returned, or none.');
  elsif p_limit is null or p_limit not between 1 and 100000 then
    perform tasker.raise_error('TK400', format('can''t read %s changes at once', coalesce(p_limit::text, 'null')),
                               jsonb_build_object('limit', p_limit), 'Read 1 to 100,000 changes in one call.');
  end if;
  v_xid := coalesce(split_part(p_cursor, ':', 1), '0')::xid8;
  v_change := coalesce(split_part(p_cursor, ':', 2), '0')::bigint;
  v_position := coalesce(split_part(p_cursor, ':', 3), '0')::int;

  -- Everything below the oldest transaction still running is final: no row can appear behind the cursor any more.
  return query
  select format('%s:%s:%s', b.recorded_xid, b.change_id, u.position),
         -- whoever comes late goes on past what has gone
         coalesce(x.change, jsonb_build_object('log', b.log, 'transition_uuid', u.transition_uuid, 'archived', true))
    from (select c.* from tasker.changes c
           where (c.recorded_xid, c.change_id) >= (v_xid, v_change)
             and c.recorded_xid < pg_snapshot_xmin(pg_current_snapshot())
             and c.log not in ('rejection', 'event', 'binding')  -- evidence, but no transition
           order by c.recorded_xid, c.change_id
           -- of what others did nothing counts towards the limit
           limit case when v_bound is null then p_limit + 1 end) b
   cross join lateral unnest(b.transition_uuids) with ordinality as u(transition_uuid, position)
   cross join lateral (select
            case b.log
              when 'task' then (
                select jsonb_build_object('log', 'task', 'transition_uuid', t.task_transition_uuid, 'entity_uuid', t.task_uuid,
                                          'task_uuid', t.task_uuid, 'namespace', t.namespace, 'lifecycle', t.lifecycle,
                                          'from_state', t.from_state, 'to_state', t.to_state, 'event', t.event, 'sort_key', t.sort_key,
                                          'processor_uuid', t.processor_uuid, 'metadata', t.metadata, 'created_at', t.created_at)
                  from tasker.task_transitions t where t.task_transition_uuid = u.transition_uuid
                  and (v_bound is null or t.namespace = any (v_bound)))
              when 'step' then (
                select jsonb_build_object('log', 'step', 'transition_uuid', t.workflow_step_transition_uuid, 'entity_uuid', t.workflow_step_uuid,
                                          'task_uuid', t.task_uuid, 'namespace', t.namespace, 'lifecycle', t.lifecycle,
                                          'from_state', t.from_state, 'to_state', t.to_state, 'event', t.event, 'sort_key', t.sort_key,
                                          'metadata', t.metadata, 'created_at', t.created_at)
                  from tasker.workflow_step_transitions t where t.workflow_step_transition_uuid = u.transition_uuid
                  and (v_bound is null or t.namespace = any (v_bound)))
              when 'worker' then (
                select jsonb_build_object('log', 'worker', 'transition_uuid', t.worker_transition_uuid, 'entity_uuid', t.worker_uuid,
                                          'lifecycle', t.lifecycle, 'from_state', t.from_state, 'to_state', t.to_state, 'event', t.event,
                                          'sort_key', t.sort_key, 'metadata', t.metadata, 'created_at', t.created_at)
                  from tasker.worker_transitions t where t.worker_transition_uuid = u.transition_uuid
                  and (v_bound is null or tasker.may_see_worker(t.worker_uuid)))
              when 'circuit_breaker' then (
                select jsonb_build_object('log', 'circuit_breaker', 'transition_uuid', t.circuit_breaker_transition_uuid,
                                          'entity_uuid', t.circuit_breaker_uuid, 'lifecycle', t.lifecycle, 'from_state', t.from_state,
                                          'to_state', t.to_state, 'event', t.event, 'sort_key', t.sort_key, 'metadata', t.metadata,
                                          'created_at', t.created_at)
                  from tasker.circuit_breaker_transitions t where t.circuit_breaker_transition_uuid = u.transition_uuid and v_bound is null)
              when 'attached' then (
                select jsonb_build_object('log', 'attached', 'transition_uuid', t.attached_transition_uuid,
                                          'entity_uuid', t.attachment_uuid, 'table', t.attached_table, 'key', t.entity_key,
                                          'namespace', t.namespace, 'lifecycle', t.lifecycle, 'from_state', t.from_state,
                                          'to_state', t.to_state, 'event', t.event, 'sort_key', t.sort_key, 'metadata', t.metadata,
                                          'created_at', t.created_at)
                  from tasker.attached_transitions t where t.attached_transition_uuid = u.transition_uuid
                  and (v_bound is null or t.namespace = any (v_bound)))
            end as change) x
   where (b.recorded_xid, b.change_id, u.position) > (v_xid, v_change, v_position)
     and (v_bound is null or x.change is not null)
   order by b.recorded_xid, b.change_id, u.position
   limit p_limit;
end
$$;
comment on function tasker.changes_after(text, int) is
  'The change feed: every log row after the cursor in commit-safe order, none missed and none twice, however late a transaction commits. Keep the last cursor and ask again. Of what was archived meanwhile only log, transition_uuid and archived are told. A bound login gets what it sees; when nothing came, it may go on from what current_cursor said before it asked, so as not to look again at what others did.';
