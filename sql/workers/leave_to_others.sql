create or replace function tasker.leave_to_others(p_step_uuids uuid[], p_worker_uuid uuid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
declare
  v_left    record;
  v_spaces  text[] := array[]::text[];
  v_missing text;
begin
  for v_left in
    with waits as (
      insert into tasker.handler_waits (workflow_step_uuid, sort_key, task_uuid, namespace, handler, requires, priority, left_by)
      select s.workflow_step_uuid, c.sort_key, s.task_uuid, s.namespace, s.handler, s.requires, t.priority, p_worker_uuid
        from unnest(p_step_uuids) with ordinality as asked(workflow_step_uuid, position)
       cross join lateral (select * from tasker.workflow_steps s where s.workflow_step_uuid = asked.workflow_step_uuid limit 1) s
       cross join lateral (select c.sort_key from tasker.workflow_step_transitions c
                            where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
       cross join lateral (select tasker.queue_priority(t.priority) as priority from tasker.tasks t where t.task_uuid = s.task_uuid limit 1) t
       order by asked.position
          on conflict do nothing
      returning namespace, handler
    )
    select w.namespace, w.handler, count(*) as steps from waits w group by 1, 2 order by 1, 2
  loop
    v_spaces := v_spaces || v_left.namespace;
    v_missing := tasker.handler_missing(v_left.namespace, v_left.handler);
    if v_missing is null then
      raise notice using
        message = format('%s step(s) of namespace %s were left to workers with handler %s', v_left.steps, v_left.namespace, v_left.handler),
        detail = to_jsonb(v_left)::text;
    else
      raise warning using
        message = format('%s step(s) of namespace %s were left to others: %s', v_left.steps, v_left.namespace, v_missing),
        detail = to_jsonb(v_left)::text, hint = 'Start a worker that has it. The steps wait, and no attempt is used up.';
    end if;
  end loop;
  -- whoever has the handler may have looked into the queue while this worker had them in its hands
  perform tasker.signal_work(array(select distinct n from unnest(v_spaces) n));
end
$$;
comment on function tasker.leave_to_others(uuid[], uuid) is
  'Puts steps that a worker without their handler took out of a queue where those find them that have it. No attempt is used up. The worker is told by a NOTICE, or by a WARNING where no living worker has the handler.';
