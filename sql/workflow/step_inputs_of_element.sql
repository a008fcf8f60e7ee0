create or replace function tasker.step_inputs_of_element(p_step_uuid uuid)
  returns table (arguments jsonb, inputs jsonb, payloads text[], context_list text[])
language sql
stable strict
begin atomic
  select case when m.sensitive is null then m.arguments
              else tasker.reveal(coalesce(m.named_step_uuid, m.workflow_step_uuid), 'arguments', m.arguments) end
         || case when s.sensitive is null then s.arguments else tasker.reveal(s.workflow_step_uuid, 'arguments', s.arguments) end,
         i.inputs #- case when l.keys[1] = 'inputs' then l.keys[2:] else '{}' end, i.payloads,
         case when l.keys[1] = 'context' then l.keys[2:] end
    from tasker.workflow_steps s
   cross join lateral (select m.workflow_step_uuid, m.named_step_uuid, m.sensitive, m.arguments, m.options from tasker.workflow_step_edges e
                         join tasker.workflow_steps m on m.workflow_step_uuid = e.to_step_uuid and m.options ? 'elements'
                        where e.from_step_uuid = s.workflow_step_uuid and e.task_uuid = s.task_uuid limit 1) m
   cross join lateral (select array(select k from jsonb_array_elements_text(m.options -> 'list') k) as keys) l
   -- a result that is the list is not even read
   cross join lateral tasker.step_inputs(m.workflow_step_uuid, false, true, case when l.keys[1] = 'inputs' and cardinality(l.keys) = 2 then l.keys[2] end) i
   where s.workflow_step_uuid = p_step_uuid;
end;
comment on function tasker.step_inputs_of_element(uuid) is
  'What a worker is told of an element: the arguments of its map step with its item and index, and the inputs of its map step without the list itself, of which the item is a part: ten thousand elements would each be sent all of them. context_list: where the list stands in the context. One row.';
