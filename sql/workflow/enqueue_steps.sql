create or replace function tasker.enqueue_steps(p_step_uuids uuid[], p_task_uuids uuid[], p_namespaces text[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_batch record;
begin
  if coalesce(cardinality(p_step_uuids), 0) = 0 then
    return;
  end if;
  for v_batch in
    select coalesce(c.queue_name, n.queue_name) as queue_name,
           array_agg(jsonb_build_object('step_uuid', q.step_uuid, 'task_uuid', q.task_uuid) order by q.position) as messages
      from unnest(p_step_uuids, p_task_uuids, p_namespaces) with ordinality as q(step_uuid, task_uuid, namespace, position)
      join tasker.task_namespaces n on n.namespace = q.namespace
     cross join lateral (select s.requires from tasker.workflow_steps s where s.workflow_step_uuid = q.step_uuid limit 1) s
      left join tasker.capability_queues c on c.namespace = q.namespace and c.requires = s.requires and s.requires <> '{}'
     group by 1
  loop
    perform pgmq.send_batch(v_batch.queue_name, v_batch.messages);
  end loop;
  perform tasker.signal_work(array(select distinct n from unnest(p_namespaces) n));
end
$$;
comment on function tasker.enqueue_steps(uuid[], uuid[], text[]) is
  'Sends steps to the queues of their namespaces, one pgmq call a queue, and signals their workers. The three arrays run in parallel.';
