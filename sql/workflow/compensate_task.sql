create or replace function tasker.compensate_task(p_task_uuid uuid) returns uuid
language plpgsql
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_plan  uuid := tasker.uuid_generate_v7();
  v_ended text;
  v_task  tasker.tasks;
  v_tasks uuid[];
  v_done  tasker.workflow_steps[];
  v_steps tasker.named_steps[];
begin
  -- how it ended is told by what ended it: a state like S_ABANDONED is for both
  select case r.operation when 'cancel_task' then 'cancelled' else 'failed' end into v_ended
    from tasker.task_transitions c
    left join tasker.lifecycle_transitions r on r.lifecycle = c.lifecycle and r.from_state = c.from_state and r.event = c.event and r.to_state = c.to_state
    join tasker.lifecycle_states s on s.lifecycle = c.lifecycle and s.state = c.to_state
   where c.task_uuid = p_task_uuid and c.most_recent and s.is_terminal and not s.satisfies_dependencies
     and not exists (select from tasker.tasks t where t.compensates_task_uuid = p_task_uuid);
  if not found then
    return null;
  end if;
  -- with what was done in the tasks that it resumed
  v_tasks := array(
    with recursive before_it as (
      select t.task_uuid, t.resumes_task_uuid from tasker.tasks t where t.task_uuid = p_task_uuid
       union
      select t.task_uuid, t.resumes_task_uuid from before_it b join tasker.tasks t on t.task_uuid = b.resumes_task_uuid)
    select b.task_uuid from before_it b);
  v_done := array(
    select s
      from unnest(v_tasks) as b(task_uuid)
     cross join lateral (select * from tasker.workflow_steps s where s.task_uuid = b.task_uuid offset 0) s
     cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state and x.phase in ('succeeded', 'resolved')
     where s.options #> '{undo,when}' ? v_ended and s.left_out is not true
       and not s.options ? 'for_each');  -- of a map each element is undone, since not all of them may be done
  if cardinality(v_done) = 0 then
    return null;
  end if;

  -- Backwards: the undo of a step waits for the undos of what came after it, over whatever stood between them.
  with recursive edges as materialized (
    select e.from_step_uuid, e.to_step_uuid, s.options ? 'elements' as to_map
      from unnest(v_tasks) as b(task_uuid)
     cross join lateral (select s.workflow_step_uuid, s.options from tasker.workflow_steps s where s.task_uuid = b.task_uuid offset 0) s
     cross join lateral (select e.* from tasker.workflow_step_edges e where e.to_step_uuid = s.workflow_step_uuid offset 0) e
  ), elements as materialized (
    select e.from_step_uuid as step_uuid, e.to_step_uuid as map_uuid
      from edges e cross join lateral (select from tasker.workflow_steps s where s.workflow_step_uuid = e.from_step_uuid and s.options ? 'element' limit 1) s
     where e.to_map
  ), follows as materialized (
    select e.from_step_uuid, e.to_step_uuid from edges e
     union all  -- the elements of a map come after what the map waited for
    select e.from_step_uuid, m.step_uuid
      from edges e join elements m on m.map_uuid = e.to_step_uuid
     where e.to_map and e.from_step_uuid not in (select x.step_uuid from elements x)
  ), undone as materialized (
    select s.*, (row_number() over (order by s.ordinal desc, s.workflow_step_uuid))::int as place from unnest(v_done) s
  ), after_it as (
    select u.place, f.to_step_uuid as step_uuid from undone u join follows f on f.from_step_uuid = u.workflow_step_uuid
     union
    select a.place, f.to_step_uuid
      from after_it a join follows f on f.from_step_uuid = a.step_uuid
     where a.step_uuid not in (select u.workflow_step_uuid from undone u)
  ), waits_for as (
    select a.place, array_agg(u.place order by u.place) as places from after_it a join undone u on u.workflow_step_uuid = a.step_uuid group by a.place
  )
  select array_agg((null, v_plan, 'undo ' || u.name, u.undo ->> 'handler', u.place, coalesce(w.places, '{}'),
                    coalesce(m.arguments, '{}') || u.arguments || coalesce(nullif(u.undo -> 'arguments', 'null'), '{}'), true,
                    coalesce((u.undo ->> 'max_attempts')::numeric::int, 5),
                    coalesce((u.undo #>> '{retry,base_delay}')::double precision, 2) * interval '1 second',
                    coalesce((u.undo #>> '{retry,max_delay}')::double precision, 60) * interval '1 second',
                    coalesce((u.undo #>> '{retry,jitter}')::real, 0.25), (u.undo ->> 'timeout_seconds')::double precision * interval '1 second',
                    u.undo ->> 'tool', u.requires, '[]', 'block', null, false, u.sensitive || m.sensitive, u.sensitive_result, null,
                    jsonb_strip_nulls(jsonb_build_object('undoes', u.workflow_step_uuid, 'of_map', m.workflow_step_uuid)))::tasker.named_steps order by u.place)
    into v_steps
    from (select u.*, u.options -> 'undo' as undo from undone u) u
    left join waits_for w on w.place = u.place
    left join elements e on e.step_uuid = u.workflow_step_uuid
    left join lateral (select * from tasker.workflow_steps m where m.workflow_step_uuid = e.map_uuid limit 1) m on true;

  select * into v_task from tasker.tasks t where t.task_uuid = p_task_uuid;
  v_task.context := tasker.reveal(p_task_uuid, 'context', v_task.context);
  v_task.compensates_task_uuid := p_task_uuid;
  v_task.task_uuid := tasker.uuid_generate_v7();
  v_task.name := 'undo ' || v_task.name;
  v_task.named_task_uuid := null;
  v_task.idempotency_key := null;
  v_task.unique_key := null;
  v_task.resumes_task_uuid := null;
  v_task.start_at := null;
  v_task.timeout := null;  -- what was begun must be undone, however long it takes
  v_task.final_validation := false;
  perform tasker.create_or_find_tasks(array[v_task], array[v_plan], v_steps, array[false]);
  -- what was done stays where it was done: its result and its inputs are those of its undo
  insert into tasker.workflow_step_edges (task_uuid, from_step_uuid, to_step_uuid)
  select n.task_uuid, e.from_step_uuid, n.workflow_step_uuid
    from (select s.*, (s.options ->> 'undoes')::uuid as undoes, (s.options ->> 'of_map')::uuid as of_map
            from tasker.workflow_steps s where s.task_uuid = v_task.task_uuid) n
   cross join lateral (select n.undoes as from_step_uuid
                        union
                       select e.from_step_uuid from tasker.workflow_step_edges e where e.to_step_uuid = n.undoes
                        union  -- of an element those of its map, without the list of which it got its part, and without the other elements
                       select e.from_step_uuid
                         from tasker.workflow_steps m
                         join tasker.workflow_step_edges e on e.to_step_uuid = m.workflow_step_uuid and e.waived
                         join tasker.workflow_steps d on d.workflow_step_uuid = e.from_step_uuid
                        where m.workflow_step_uuid = n.of_map
                          and (m.options #>> '{list,0}' = 'inputs' and m.options #>> '{list,1}' = d.name) is not true) e
   cross join lateral (select d.on_failure, d.left_out from tasker.workflow_steps d where d.workflow_step_uuid = e.from_step_uuid limit 1) d
   cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                        where c.workflow_step_uuid = e.from_step_uuid and c.most_recent limit 1) c
    join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state
   where tasker.counts_as(x.counts_as, d.on_failure, d.left_out) = 'satisfied';
  insert into tasker.sensitive_values (entity_uuid, part, task_uuid, namespace, hidden)
  select n.workflow_step_uuid, 'arguments', n.task_uuid, n.namespace, jsonb_object_agg(h.key, h.value)
    from tasker.workflow_steps n
    join tasker.workflow_steps o on o.workflow_step_uuid = (n.options ->> 'undoes')::uuid
    join tasker.sensitive_values v on v.entity_uuid in (o.named_step_uuid, o.workflow_step_uuid, (n.options ->> 'of_map')::uuid) and v.part = 'arguments'
   cross join lateral jsonb_each(v.hidden) as h(key, value)
   where n.task_uuid = v_task.task_uuid
   group by n.workflow_step_uuid, n.task_uuid, n.namespace;
  perform tasker.drive_tasks(array[v_task.task_uuid]);
  return v_task.task_uuid;
end
$$;
comment on function tasker.compensate_task(uuid) is
  'Where a locked task has just ended without success: begins the task that undoes its completed steps, backwards, if they declare an undo for such an end. A task is undone once.';
