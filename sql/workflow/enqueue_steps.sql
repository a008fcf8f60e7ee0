create or replace function tasker.enqueue_steps(p_step_uuids uuid[], p_delayed boolean default false) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_batch record;
  v_told  text[] := array[]::text[];
begin
  if coalesce(cardinality(p_step_uuids), 0) = 0 then
    return;
  end if;
  for v_batch in
    select coalesce(c.queue_name, n.queue_name) as queue_name,
           array_agg(jsonb_build_object('step_uuid', q.step_uuid, 'task_uuid', s.task_uuid) order by q.position) filter (where not s.waits and not s.own) as messages,
           array_agg(distinct s.namespace) filter (where not s.waits and not s.own) as namespaces,
           array_agg(q.step_uuid order by q.position) filter (where not s.waits and s.own) as own,
           array_agg(q.step_uuid) filter (where s.waits) as waiting
      from unnest(p_step_uuids) with ordinality as q(step_uuid, position)
     cross join lateral (select s.task_uuid, s.namespace, s.requires, p_delayed and s.delay is not null and s.attempts = 0 as waits,
                                  s.options is not null and tasker.runs_in_engine(s.options) as own
                           from tasker.workflow_steps s where s.workflow_step_uuid = q.step_uuid limit 1) s
     cross join lateral (select tasker.queue_priority(t.priority) as priority from tasker.tasks t where t.task_uuid = s.task_uuid limit 1) t
      join tasker.task_namespaces n on n.namespace = s.namespace
      left join tasker.work_queues c on c.namespace = s.namespace and c.requires = s.requires and c.priority = t.priority
                                    and (s.requires <> '{}' or t.priority <> 0)
     group by 1
  loop
    if v_batch.messages is not null then
      perform pgmq.send_batch(v_batch.queue_name, v_batch.messages);
      v_told := v_told || v_batch.namespaces;
    end if;
    if v_batch.own is not null then
      perform tasker.wake_engine(v_batch.own);
    end if;
    if v_batch.waiting is not null then  -- in no queue before their time: a timer puts them there
      insert into tasker.timers (due_at, kind, task_uuid, namespace, workflow_step_uuid, sort_key)
      select tasker.clock() + s.delay, 'requeue', s.task_uuid, s.namespace, s.workflow_step_uuid, c.sort_key
        from unnest(v_batch.waiting) as asked(step_uuid)
       cross join lateral (select s.workflow_step_uuid, s.task_uuid, s.namespace, s.delay
                             from tasker.workflow_steps s where s.workflow_step_uuid = asked.step_uuid limit 1) s
       cross join lateral (select c.sort_key from tasker.workflow_step_transitions c
                            where c.workflow_step_uuid = asked.step_uuid and c.most_recent limit 1) c;
    end if;
  end loop;
  if cardinality(v_told) > 0 then
    perform tasker.signal_work(array(select distinct n from unnest(v_told) n));
  end if;
end
$$;
comment on function tasker.enqueue_steps(uuid[], boolean) is
  'Sends steps to the queues of their namespaces, one pgmq call a queue, and signals their workers; those that the engine runs go to the engine. p_delayed: those with a delay before their first attempt are sent when it is over.';
