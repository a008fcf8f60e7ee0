create or replace function tasker.report_retention(
  p_from  timestamptz,
  p_until timestamptz,
  out at           timestamptz,
  out event        text,
  out subject      text,
  out namespace    text,
  out requested_by text,
  out reason       text,
  out tasks        bigint,
  out rows         bigint,
  out is_proven    boolean,
  out detail       jsonb
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
  perform tasker.refuse_bound_login('a report covers all of them');
  return query
  select e.created_at, e.event, e.subject, e.namespace, e.requested_by, e.reason, (e.detail ->> 'tasks')::bigint, (e.detail ->> 'rows')::bigint,
         case when e.event = 'tasks_purged' then tasker.purge_digest(e.subject::uuid) = e.detail ->> 'digest' end, e.detail
    from tasker.audit_events e
   where e.created_at >= p_from and e.created_at < p_until
     and e.event in ('tasks_archived', 'tasks_purged', 'task_held', 'task_released', 'archive_partition_dropped', 'retention_policy_added', 'retention_policy_changed')
   order by e.created_at;
end
$$;
comment on function tasker.report_retention(timestamptz, timestamptz) is
  'What was archived, purged, held and released from p_from until before p_until, by whom, under which policy; is_proven: purged_tasks still says what the event of the purge sealed.';
