create or replace function tasker.expand_maps(p_ready_steps uuid[]) returns uuid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  c_limit   constant int := 100000;
  v_ready   uuid[] := p_ready_steps;
  v_map     record;
  v_items   jsonb;
  v_problem jsonb;
  v_last    int;
  v_new     uuid[];
begin
  for v_map in
    select s.workflow_step_uuid, s.task_uuid, s.namespace, s.named_step_uuid, s.name, s.handler, s.retryable, s.max_attempts, s.base_delay, s.max_delay,
           s.jitter, s.timeout, s.tool, s.requires, s.acceptance, s.on_failure, s.sensitive_result, s.delay, (s.options ->> 'for_each')::jsonpath as path,
           -- what comes from something sensitive is sensitive
           case when s.options ->> 'for_each' like 'strict $."context"%' then t.sensitive is not null
                else t.sensitive is not null and s.options ->> 'for_each' not like 'strict $."inputs"%'
                     or exists (select from tasker.workflow_step_edges e
                                  join tasker.workflow_steps d on d.workflow_step_uuid = e.from_step_uuid and d.sensitive_result
                                 where e.to_step_uuid = s.workflow_step_uuid) end as is_secret,
           case when s.options ? 'undo' then jsonb_build_object('undo', s.options -> 'undo') else '{}' end as undo
      from unnest(p_ready_steps) as asked(workflow_step_uuid)
     cross join lateral (select * from tasker.workflow_steps s
                          where s.workflow_step_uuid = asked.workflow_step_uuid and s.options ? 'for_each' and not s.options ?| array['elements', 'fails']
                            and s.handed_out_at is null limit 1) s
     cross join lateral (select c.lifecycle, c.to_state from tasker.workflow_step_transitions c
                          where c.workflow_step_uuid = s.workflow_step_uuid and c.most_recent limit 1) c
      join tasker.lifecycle_states x on x.lifecycle = c.lifecycle and x.state = c.to_state and x.phase = 'pending'
     cross join lateral (select * from tasker.tasks t where t.task_uuid = s.task_uuid limit 1) t
     order by s.task_uuid, s.ordinal
  loop
    v_items := tasker.map_items((select o.scope from tasker.step_scope(v_map.workflow_step_uuid) o), v_map.path);
    v_problem := case when v_items is null
                      then jsonb_build_object('type', 'no_list', 'message', format('for_each: there is no list at %s', v_map.path))
                      when jsonb_array_length(v_items) > c_limit
                      then jsonb_build_object('type', 'too_many_elements', 'message', format('for_each: %s has %s elements, and a step has %s at most',
                                                                                             v_map.path, jsonb_array_length(v_items), c_limit)) end;
    if v_problem is not null then
      update tasker.workflow_steps s set options = s.options || jsonb_build_object('fails', v_problem) where s.workflow_step_uuid = v_map.workflow_step_uuid;
      continue;
    end if;
    -- from now on it waits for its elements, and for nothing that it waited for before
    update tasker.workflow_step_edges e set waived = true where e.to_step_uuid = v_map.workflow_step_uuid and e.waived is null;
    update tasker.workflow_steps s
       set options = s.options - 'run_when' - 'dependencies' || jsonb_build_object('elements', jsonb_array_length(v_items),
                                                                                       'list', tasker.list_keys(v_map.path)),
           acceptance = '[]', delay = null, unmet_dependencies = 0
     where s.workflow_step_uuid = v_map.workflow_step_uuid;
    select max(s.ordinal) into v_last from tasker.workflow_steps s where s.task_uuid = v_map.task_uuid;
    v_new := tasker.grow_task(
      v_map.task_uuid,
      array(select (v_map.named_step_uuid, null, format('%s[%s]', v_map.name, i.position - 1), v_map.handler, v_last + i.position::int, '{}',
                    jsonb_build_object('item', case when v_map.is_secret then '"[sensitive]"' else i.item end, 'index', i.position - 1), v_map.retryable,
                    v_map.max_attempts, v_map.base_delay, v_map.max_delay, v_map.jitter, v_map.timeout, v_map.tool, v_map.requires, v_map.acceptance,
                    v_map.on_failure, null, false, case when v_map.is_secret then array['item'] end, v_map.sensitive_result, v_map.delay,
                    jsonb_build_object('element', i.position - 1) || v_map.undo)::tasker.named_steps
              from jsonb_array_elements(v_items) with ordinality as i(item, position)),
      array(select v_last + i.position from generate_series(1, jsonb_array_length(v_items)) as i(position)),
      array_fill(v_map.workflow_step_uuid, array[jsonb_array_length(v_items)]));
    if v_map.is_secret then
      insert into tasker.sensitive_values (entity_uuid, part, task_uuid, namespace, hidden)
      select s.workflow_step_uuid, 'arguments', s.task_uuid, s.namespace, jsonb_build_object('item', i.item)
        from jsonb_array_elements(v_items) with ordinality as i(item, position)
        join tasker.workflow_steps s on s.task_uuid = v_map.task_uuid and s.name = format('%s[%s]', v_map.name, i.position - 1);
    end if;
    if cardinality(v_new) > 0 then
      v_ready := array_remove(v_ready, v_map.workflow_step_uuid) || v_new;
    end if;
  end loop;
  return v_ready;
end
$$;
comment on function tasker.expand_maps(uuid[]) is
  'Makes one step for each element of the list that for_each of these ready steps leads to; each then waits for its elements. What has none, or no list, stays ready and is run by the engine. Answers what is ready now. The caller holds the locks of the tasks.';
