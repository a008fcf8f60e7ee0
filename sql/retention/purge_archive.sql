create or replace function tasker.purge_archive(
  p_policy       text,
  p_requested_by text,
  p_limit        int default 100,
  out purge_uuid uuid,
  out tasks      bigint,
  out rows       bigint,
  out more       boolean
) returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_policy tasker.retention_policies := tasker.retention_policy_or_refuse(p_policy, p_requested_by, p_limit);
  v_before timestamptz := clock_timestamp() - v_policy.purge_after;
  v_roots  uuid[];
  v_tasks  uuid[];
begin
  lock table tasker.archived_tasks in share row exclusive mode;
  v_roots := array(
    select a.task_uuid
      from tasker.archived_tasks a
     where a.completed_at < v_before and a.root_task_uuid = a.task_uuid
       and (v_policy.namespace is null or a.namespace = v_policy.namespace)
       and not exists (select from tasker.archived_tasks m
                        where m.root_task_uuid = a.task_uuid
                          and (m.completed_at >= v_before or exists (select from tasker.legal_holds h where h.task_uuid = m.task_uuid)))
     order by a.completed_at
     limit p_limit + 1);
  more := cardinality(v_roots) > p_limit;
  v_tasks := array(select a.task_uuid from tasker.archived_tasks a where a.root_task_uuid = any (v_roots[:p_limit]));
  tasks := cardinality(v_tasks);
  rows := 0;
  if tasks = 0 then
    perform tasker.drop_empty_partitions(p_requested_by);
    return;
  end if;

  purge_uuid := tasker.uuid_generate_v7();
  insert into tasker.purged_tasks (task_uuid, namespace, name, completed_at, policy, row_uuids, purge_uuid)
  select a.task_uuid, a.namespace, a.name, a.completed_at, v_policy.policy,
         array(select r.row_uuid from tasker.archived_rows r where r.task_uuid = a.task_uuid order by r.row_uuid), purge_uuid
    from tasker.archived_tasks a
   where a.task_uuid = any (v_tasks);
  -- nobody seals, and so counts, meanwhile
  lock table tasker.audit_seals in share row exclusive mode;
  perform tasker.uncount_purged(v_tasks);
  delete from tasker.archived_rows r where r.task_uuid = any (v_tasks);
  get diagnostics rows = row_count;
  delete from tasker.step_payloads p where p.task_uuid = any (v_tasks);
  delete from tasker.archived_tasks a where a.task_uuid = any (v_tasks);
  insert into tasker.audit_events (event, subject, namespace, requested_by, reason, detail)
  values ('tasks_purged', purge_uuid::text, v_policy.namespace, p_requested_by, v_policy.description,
          jsonb_build_object('policy', v_policy.policy, 'purge_after', v_policy.purge_after, 'ended_before', v_before,
                             'tasks', tasks, 'rows', rows, 'digest', tasker.purge_digest(purge_uuid)));
  perform tasker.drop_empty_partitions(p_requested_by);
end
$$;
comment on function tasker.purge_archive(text, text, int) is
  'Removes archived families of tasks for good: at most p_limit of them that ended longer ago than the policy asks and are not on legal hold. purged_tasks and an event keep what was removed, by whom, under which policy; the seals still fit. Months that are past and empty are dropped. more: call again.';
