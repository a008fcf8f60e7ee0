create or replace function tasker.orchestrate(
  p_processor_uuid uuid default null,
  p_limit          int default 100
) returns tasker.drive_counts
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
declare
  v_messages jsonb[];
  v_steps    uuid[];
  v_engine   uuid[];  -- steps for the engine itself
  v_awaited  uuid[];  -- steps whose event is there
  v_one      tasker.drive_counts;
  v_counts   tasker.drive_counts := (0, 0, 0, 0, 0);
begin
  if p_limit is null or p_limit not between 1 and 10000 then
    perform tasker.raise_error('TK400', format('can''t drain %s messages at once', coalesce(p_limit::text, 'null')),
                               jsonb_build_object('limit', p_limit), 'Drain 1 to 10,000 messages in one call.');
  end if;
  perform tasker.refuse_unknown_processor(p_processor_uuid);
  v_messages := tasker.pop_results(p_limit);
  if v_messages is null then
    return v_counts;
  end if;

  select array_agg(distinct u.step_uuid::uuid) filter (where u.field = 'step_uuids'),
         array_agg(distinct u.step_uuid::uuid) filter (where u.field = 'engine_steps')
    into v_steps, v_engine
    from unnest(v_messages) m
   cross join lateral (select f.field, e.step_uuid
                         from unnest(array['step_uuids', 'engine_steps']) as f(field)
                        cross join lateral jsonb_array_elements_text(
                           case when jsonb_typeof(m -> f.field) = 'array' then m -> f.field else '[]' end) as e(step_uuid)) u
   where tasker.is_uuid(u.step_uuid);
  perform tasker.reject_transition('message', null, 'TK400', 'the orchestration queue held a message without steps',
                                   jsonb_build_object('message', m))
     from unnest(v_messages) m
    where coalesce(jsonb_typeof(coalesce(m -> 'step_uuids', m -> 'engine_steps', m -> 'events')), '') <> 'array';
  if exists (select from unnest(v_messages) m where m ? 'events') then
    v_awaited := tasker.awaited_steps(v_messages);
  end if;
  if v_engine is not null or cardinality(v_awaited) > 0 then
    -- the locks of all, in one order
    perform tasker.lock_tasks(array(select distinct s.task_uuid from tasker.workflow_steps s
                                     where s.workflow_step_uuid = any (v_engine || v_steps || v_awaited)));
    perform tasker.lock_steps(v_engine || v_steps || v_awaited);
  end if;
  if v_engine is not null then
    perform tasker.run_engine_steps(v_engine);
  end if;
  if cardinality(v_awaited) > 0 then
    v_counts := tasker.release_waits(v_awaited);
  end if;
  if v_steps is not null then  -- last: it locks breakers
    v_one := tasker.settle_steps(v_steps, p_processor_uuid);
    v_counts.steps_settled := v_one.steps_settled;
    v_counts.steps_enqueued := v_counts.steps_enqueued + v_one.steps_enqueued;
    v_counts.tasks_moved := v_counts.tasks_moved + v_one.tasks_moved;
    v_counts.tasks_finished := v_counts.tasks_finished + v_one.tasks_finished;
  end if;
  v_counts.messages := cardinality(v_messages);
  return v_counts;
end
$$;
comment on function tasker.orchestrate(uuid, int) is
  'Drains reported results in bulk, and runs the steps that need no worker, and lets those go on whose event is there. Anybody may call it at any time: workers do after every report, and a crash leaves its messages to the next caller. A bound login drains those of its namespaces.';
