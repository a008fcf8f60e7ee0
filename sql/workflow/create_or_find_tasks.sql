create or replace function tasker.create_or_find_tasks(
  p_tasks tasker.tasks[],
  p_plans uuid[],
  p_steps tasker.named_steps[],
  p_start boolean[]
) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_created uuid[];
  v_answer  uuid[];
  v_found   tasker.tasks[];
  v_other   record;
  v_parent  uuid;
  v_judged  uuid[];
  -- most tasks are nothing but steps in their order: one look tells that nothing of this concerns them
  v_plain   boolean := not exists (select from unnest(p_tasks) t
                                    where t.parent_task_uuid is not null or t.worker_count is not null or t.priority <> 0 or t.sensitive is not null)
                       and not exists (select from unnest(p_steps) s
                                        where s.requires <> '{}' or s.condition is not null or s.options is not null);
begin
  if pg_column_size(p_tasks) > 4096 then
    perform tasker.refuse_large('the ' || d.name, d.document, t.namespace)
       from unnest(p_tasks) t cross join lateral (values ('context', t.context), ('tags', t.tags)) as d(name, document)
      where t.resumes_task_uuid is null and t.compensates_task_uuid is null;  -- what a task had those that resume or undo it have too
  end if;
  if not v_plain then
    -- first steps that are more than a call of their handler are looked at once their task stands
    v_judged := array(select distinct s.named_task_uuid from unnest(p_steps) s
                       where (s.condition is not null or s.options is not null) and s.depends_on = '{}');
    select t.parent_task_uuid into v_parent
      from unnest(p_tasks) t
     where t.parent_task_uuid is not null and t.resumes_task_uuid is null and t.compensates_task_uuid is null  -- those stand where the other one stood
       and not exists (select from tasker.tasks k where k.task_uuid = t.parent_task_uuid and tasker.may_see(k.namespace))
     limit 1;
    if found then
      perform tasker.raise_error('TK404', format('there is no parent task %s', v_parent),
                                 jsonb_build_object('parent_task_uuid', v_parent));
    end if;

    select t.parent_task_uuid into v_parent from unnest(p_tasks) t where t.worker_count is not null and t.depth > 5 limit 1;
    if found then
      perform tasker.raise_error('TK400', 'jobs are at most five deep', jsonb_build_object('parent_task_uuid', v_parent, 'limit', 5),
                                 'Start it from a job further up.');
    end if;

    -- a queue of their own for steps that ask for capabilities, and for what is more or less urgent
    perform tasker.ensure_work_queue(q.namespace, q.requires, q.priority)
       from (select distinct t.namespace, s.requires, tasker.queue_priority(t.priority) as priority
               from unnest(p_tasks) with ordinality as t
               join unnest(p_plans) with ordinality as p(plan_uuid, position) on p.position = t.ordinality
               join unnest(p_steps) s on s.named_task_uuid = p.plan_uuid
              where s.requires <> '{}' or t.priority <> 0
              order by 1, 2, 3) q;  -- one order for all sessions
    -- before conditions are judged, which see the values
    if exists (select from unnest(p_tasks) t where t.sensitive is not null) then
      for v_place in 1 .. cardinality(p_tasks) loop
        if p_tasks[v_place].sensitive is not null then
          p_tasks[v_place].context := tasker.keep_sensitive(p_tasks[v_place].task_uuid, 'context', p_tasks[v_place].task_uuid,
                                                            p_tasks[v_place].namespace, p_tasks[v_place].context, p_tasks[v_place].sensitive);
        end if;
      end loop;
    end if;
  end if;
  v_created := tasker.insert_tasks(p_tasks, p_plans, p_steps,
                                   case when v_plain then p_start
                                        else array(select p.start and p.plan_uuid <> all (v_judged)
                                                     from unnest(p_plans, p_start) with ordinality as p(plan_uuid, start, position) order by p.position) end);
  if not v_plain then  -- jobs look for their workers at once
    perform tasker.drive_tasks(array(select t.task_uuid from unnest(p_tasks) with ordinality as t
                                       join unnest(v_created) as c(task_uuid) on c.task_uuid = t.task_uuid
                                      where (t.worker_count is not null or p_plans[t.ordinality] = any (v_judged)) and p_start[t.ordinality]));
  end if;
  if cardinality(v_created) = cardinality(p_tasks) then
    return v_created;
  end if;

  -- some keys were taken, perhaps by a call that ran beside this one and has committed by now
  v_found := array(select t from unnest(p_tasks) t
                     left join unnest(v_created) as c(task_uuid) on c.task_uuid = t.task_uuid where c.task_uuid is null);
  delete from tasker.sensitive_values v using unnest(v_found) t
   where t.sensitive is not null and v.entity_uuid = t.task_uuid and v.part = 'context';
  select t.idempotency_key, t.namespace, k.task_uuid into v_other
    from unnest(v_found) t
    join tasker.tasks k on k.namespace = t.namespace and k.idempotency_key = t.idempotency_key
   where k.request_hash <> t.request_hash
   limit 1;
  if found then
    perform tasker.raise_error('TK423', format('idempotency key %s was used before with another request', v_other.idempotency_key),
                               to_jsonb(v_other), 'Use a new key for a new request, or send the same request again.');
  end if;
  select array_agg(coalesce(k.task_uuid, t.task_uuid) order by t.ordinality)
    into v_answer
    from unnest(p_tasks) with ordinality as t
    left join unnest(v_found) f on f.task_uuid = t.task_uuid
    left join tasker.tasks k on k.namespace = f.namespace and k.idempotency_key = f.idempotency_key;
  return v_answer;
end
$$;
comment on function tasker.create_or_find_tasks(tasker.tasks[], uuid[], tasker.named_steps[], boolean[]) is
  'insert_tasks, with the task that exists already in place of one whose idempotency key is taken by the same request; TK423 if it was another.';
