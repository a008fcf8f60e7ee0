create or replace function tasker.resend_steps(p_step_uuids uuid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_steps      uuid[];
  v_tasks      uuid[];
  v_namespaces text[];
begin
  select array_agg(s.workflow_step_uuid order by s.workflow_step_uuid), array_agg(s.task_uuid order by s.workflow_step_uuid),
         array_agg(s.namespace order by s.workflow_step_uuid)
    into v_steps, v_tasks, v_namespaces
    from unnest(p_step_uuids) as asked(workflow_step_uuid)
   cross join lateral (select * from tasker.workflow_steps s where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
   cross join lateral (select t.to_state from tasker.workflow_step_transitions t
                        where t.workflow_step_uuid = s.workflow_step_uuid and t.most_recent limit 1) c
    join tasker.lifecycle_states x on x.lifecycle = s.lifecycle and x.state = c.to_state and x.phase <> 'pending'
   where (select true from tasker.lifecycle_transitions r
           where r.lifecycle = s.lifecycle and r.from_state = c.to_state and r.operation = 'claim' limit 1);
  perform tasker.enqueue_steps(v_steps, v_tasks, v_namespaces);
end
$$;
comment on function tasker.resend_steps(uuid[]) is
  'Puts those of these steps into their queue that a worker may claim from the state they are in.';
