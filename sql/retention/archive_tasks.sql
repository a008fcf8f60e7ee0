create or replace function tasker.archive_tasks(
  p_policy       text,
  p_requested_by text,
  p_limit        int default 100,
  out tasks bigint,
  out rows  bigint,
  out more  boolean
) returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_policy tasker.retention_policies := tasker.retention_policy_or_refuse(p_policy, p_requested_by, p_limit);
  v_before timestamptz := clock_timestamp() - v_policy.archive_after;
  v_roots  uuid[];
  v_family uuid[];  -- the roots, one for each task
  v_tasks  uuid[];
  v_steps  uuid[];
  v_sealed record;
begin
  -- one archivist at a time; work goes on
  lock table tasker.archived_tasks in share row exclusive mode;
  v_roots := array(
    select t.task_uuid
      from tasker.tasks t
     where t.created_at < v_before and t.completed_at < v_before
       and t.parent_task_uuid is null and t.resumes_task_uuid is null and t.compensates_task_uuid is null
       and (v_policy.namespace is null or t.namespace = v_policy.namespace)
       and exists (select from tasker.archivable_tasks(array[t.task_uuid], v_before))
     order by t.created_at
     limit p_limit + 1);
  more := cardinality(v_roots) > p_limit;
  v_roots := v_roots[:p_limit];
  v_tasks := array(select a.task_uuid from tasker.archivable_tasks(v_roots, v_before) a);

  -- what is archived is sealed, and counted, before it moves
  loop
    select s.more into v_sealed from tasker.seal_audit() s;
    exit when not v_sealed.more;
  end loop;
  loop
    exit when tasker.metrics_fold() = 0;
  end loop;

  perform tasker.lock_work(v_tasks);
  -- under the locks once more: what somebody sent back to work meanwhile stays
  select array_agg(a.root_task_uuid order by a.task_uuid), array_agg(a.task_uuid order by a.task_uuid)
    into v_family, v_tasks
    from tasker.archivable_tasks(v_roots, v_before) a
   where a.task_uuid = any (v_tasks);
  tasks := coalesce(cardinality(v_tasks), 0);
  rows := 0;
  if tasks = 0 then
    return;
  end if;
  v_steps := array(select s.workflow_step_uuid from tasker.workflow_steps s where s.task_uuid = any (v_tasks));

  perform tasker.ensure_archive_partition(m.month)
     from (select distinct tasker.uuid_month(t.task_transition_uuid) as month from tasker.task_transitions t where t.task_uuid = any (v_tasks)
           union
           select distinct tasker.uuid_month(t.workflow_step_transition_uuid) from tasker.workflow_step_transitions t
            where t.workflow_step_uuid = any (v_steps)) m;

  insert into tasker.archived_tasks (task_uuid, root_task_uuid, namespace, name, correlation_id, created_at, completed_at, content)
  select t.task_uuid, f.root_task_uuid, t.namespace, t.name, t.correlation_id, t.created_at, t.completed_at,
         jsonb_build_object(
           'task', to_jsonb(t),
           'steps', (select jsonb_agg(to_jsonb(s) order by s.ordinal) from tasker.workflow_steps s where s.task_uuid = t.task_uuid),
           'edges', (select jsonb_agg(jsonb_build_array(e.from_step_uuid, e.to_step_uuid))
                       from tasker.workflow_steps s join tasker.workflow_step_edges e on e.to_step_uuid = s.workflow_step_uuid
                      where s.task_uuid = t.task_uuid),
           'checkpoints', (select jsonb_agg(to_jsonb(k)) from tasker.workflow_steps s
                             join tasker.step_checkpoints k on k.workflow_step_uuid = s.workflow_step_uuid
                            where s.task_uuid = t.task_uuid),
           'waits', (select jsonb_agg(to_jsonb(w) || jsonb_build_object('payload', e.payload)) from tasker.event_waits w
                       left join tasker.events e on e.namespace = w.namespace and e.event = w.event and e.key = w.key
                      where w.task_uuid = t.task_uuid),
           'run_by', (select to_jsonb(c) from tasker.child_tasks c where c.task_uuid = t.task_uuid),
           'workers', (select jsonb_agg(to_jsonb(j)) from tasker.job_workers j where j.task_uuid = t.task_uuid))
    from unnest(v_family, v_tasks) as f(root_task_uuid, task_uuid)
    join tasker.tasks t on t.task_uuid = f.task_uuid;
  insert into tasker.archived_rows (month, row_uuid, task_uuid, log, content)
  select tasker.uuid_month(t.task_transition_uuid), t.task_transition_uuid, t.task_uuid, 'task', tasker.audit_content(t)
    from tasker.task_transitions t where t.task_uuid = any (v_tasks);
  get diagnostics rows = row_count;
  insert into tasker.archived_rows (month, row_uuid, task_uuid, log, content, audit_content)
  select tasker.uuid_month(t.workflow_step_transition_uuid), t.workflow_step_transition_uuid, t.task_uuid, 'step', tasker.audit_content(t),
         case when a.workflow_step_transition_uuid is not null then tasker.audit_content(a) end
    from tasker.workflow_step_transitions t
    left join tasker.workflow_step_result_audit a
      on a.workflow_step_uuid = t.workflow_step_uuid and a.workflow_step_transition_uuid = t.workflow_step_transition_uuid
   where t.workflow_step_uuid = any (v_steps);
  rows := rows + (select count(*) from tasker.workflow_step_transitions t where t.workflow_step_uuid = any (v_steps));

  delete from tasker.workflow_step_result_audit a where a.task_uuid = any (v_tasks);
  delete from tasker.workflow_step_transitions t where t.workflow_step_uuid = any (v_steps);
  delete from tasker.task_transitions t where t.task_uuid = any (v_tasks);
  delete from tasker.child_tasks c where c.task_uuid = any (v_tasks) or c.workflow_step_uuid = any (v_steps);
  delete from tasker.event_waits w where w.task_uuid = any (v_tasks);
  delete from tasker.timers t where t.task_uuid = any (v_tasks);
  delete from tasker.handler_waits w where w.workflow_step_uuid = any (v_steps);
  delete from tasker.sensitive_values v where v.task_uuid = any (v_tasks);  -- only for work that is still to be done
  delete from tasker.step_checkpoints k where k.workflow_step_uuid = any (v_steps);
  delete from tasker.workflow_step_edges e where e.to_step_uuid = any (v_steps);
  delete from tasker.job_workers j where j.task_uuid = any (v_tasks);
  delete from tasker.unique_keys u using (
    -- one that somebody is asking about stays: to him it is free
    select u.namespace, u.unique_key from tasker.tasks t join tasker.unique_keys u on u.namespace = t.namespace and u.unique_key = t.unique_key
     where t.task_uuid = any (v_tasks) and u.task_uuid = t.task_uuid for update of u skip locked) gone
   where u.namespace = gone.namespace and u.unique_key = gone.unique_key;
  delete from tasker.workflow_steps s where s.task_uuid = any (v_tasks);
  delete from tasker.tasks t where t.task_uuid = any (v_tasks);

  insert into tasker.audit_events (event, subject, namespace, requested_by, detail)
  values ('tasks_archived', v_policy.policy, v_policy.namespace, p_requested_by,
          jsonb_build_object('tasks', tasks, 'rows', rows, 'ended_before', v_before));
end
$$;
comment on function tasker.archive_tasks(text, text, int) is
  'Moves ended families of tasks out of the way: at most p_limit of them that ended longer ago than the policy asks, are held by nobody and by no legal hold. What moves is sealed first and not changed; sensitive values do not go along. more: call again. Messages of their steps that still stand in queues are dropped by whoever pops them.';
