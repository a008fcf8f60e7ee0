create or replace function tasker.abandon_children(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  insert into tasker.timers (due_at, kind, task_uuid, namespace, sort_key)
  select tasker.clock(), 'cancel_child', t.task_uuid, t.namespace, 0
    from unnest(p_step_uuids) as asked(workflow_step_uuid)
   cross join lateral (select s.claim_uuid from tasker.workflow_steps s where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
   cross join lateral (select c.task_uuid from tasker.child_tasks c
                        where c.workflow_step_uuid = asked.workflow_step_uuid and c.claim_uuid is distinct from s.claim_uuid
                          and c.on_parent_cancel = 'cancel' offset 0) c
   cross join lateral (select t.task_uuid, t.namespace from tasker.tasks t where t.task_uuid = c.task_uuid and t.completed_at is null limit 1) t;
end
$$;
comment on function tasker.abandon_children(uuid[]) is
  'Tasks that these steps ran and do not wait for any more are cancelled by the next tick, where the steps say so.';
