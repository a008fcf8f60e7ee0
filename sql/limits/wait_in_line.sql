create or replace function tasker.wait_in_line(p_step_uuids uuid[], p_limit_uuids uuid[], p_now timestamptz) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  insert into tasker.limit_waits (workflow_step_uuid, sort_key, limit_uuid, task_uuid, namespace, place)
  select s.workflow_step_uuid, c.sort_key, asked.limit_uuid, s.task_uuid, s.namespace, c.created_at - tasker.queue_priority(t.priority) * interval '1 minute'
    from unnest(p_step_uuids, p_limit_uuids) as asked(workflow_step_uuid, limit_uuid)
   cross join lateral (select * from tasker.workflow_steps s where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
   cross join lateral (select t.priority from tasker.tasks t where t.task_uuid = s.task_uuid limit 1) t
   cross join lateral (select c.sort_key, c.created_at from tasker.workflow_step_transitions c
                        where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
   order by s.workflow_step_uuid
      on conflict do nothing;  -- taken out of its queue by hand and put back, it stands there already
  perform tasker.hand_on_slots(array(select distinct l from unnest(p_limit_uuids) l), p_now);
end
$$;
comment on function tasker.wait_in_line(uuid[], uuid[], timestamptz) is
  'Steps that were taken out of their queues wait for a slot of these limits, each in the place that its age and priority give it.';
