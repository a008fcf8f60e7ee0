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

  select array_agg(distinct u.step_uuid::uuid)
    into v_steps
    from unnest(v_messages) m
   cross join lateral jsonb_array_elements_text(
      case when jsonb_typeof(m -> 'step_uuids') = 'array' then m -> 'step_uuids' else '[]' end) as u(step_uuid)
   where tasker.is_uuid(u.step_uuid);
  perform tasker.reject_transition('message', null, 'TK400', 'the orchestration queue held a message without steps',
                                   jsonb_build_object('message', m))
     from unnest(v_messages) m
    where coalesce(jsonb_typeof(m -> 'step_uuids'), '') <> 'array';
  if v_steps is not null then
    v_counts := tasker.settle_steps(v_steps, p_processor_uuid);
  end if;
  v_counts.messages := cardinality(v_messages);
  return v_counts;
end
$$;
comment on function tasker.orchestrate(uuid, int) is
  'Drains reported results in bulk. Anybody may call it at any time: workers do after every report, and a crash leaves its messages to the next caller. A bound login drains those of its namespaces.';
