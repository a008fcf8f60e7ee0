create or replace function tasker.schedule_tasks(
  p_schedule     text,
  p_cron         text,
  p_template     text,
  p_context      jsonb default '{}',
  p_namespace    text default 'default',
  p_time_zone    text default 'UTC',
  p_version      text default null,
  p_vocabulary   text default null,
  p_tags         jsonb default '{}',
  p_priority     int default 0,
  p_catch_up     text default 'latest',
  p_overlap      text default 'allow',
  p_requested_by text default null,
  p_request_id   text default null
) returns timestamptz
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'schedule_tasks', jsonb_build_array(
    p_schedule, p_cron, p_template, p_context, p_namespace, p_time_zone, p_version, p_vocabulary, p_tags, p_priority, p_catch_up, p_overlap, p_requested_by));
  v_next   timestamptz;
begin
  if v_answer is not null then
    return v_answer::timestamptz;
  end if;
  perform tasker.refuse_foreign_namespace(p_namespace);
  if coalesce(length(p_schedule) not between 1 and 200, true) or coalesce(p_catch_up not in ('latest', 'all', 'none'), true)
     or coalesce(p_overlap not in ('allow', 'skip'), true) or coalesce(jsonb_typeof(p_context), '') <> 'object'
     or coalesce(jsonb_typeof(p_tags), '') <> 'object' then
    perform tasker.raise_error('TK400', 'a schedule needs a name of 1 to 200 characters, a context and tags that are JSON objects, and rules for what comes late',
                               jsonb_build_object('schedule', p_schedule, 'context', jsonb_typeof(p_context), 'tags', jsonb_typeof(p_tags),
                                                  'catch_up', p_catch_up, 'overlap', p_overlap),
                               'catch_up is latest, all or none; overlap is allow or skip.');
  end if;
  select t into v_next from tasker.cron_times(p_cron, p_time_zone, null, null, 1) t;
  if v_next is null then
    perform tasker.raise_error('TK400', format('%s never comes', p_cron), jsonb_build_object('cron', p_cron),
                               'Look at day and month: 30 February, for example, is no day.');
  end if;
  if not exists (select from tasker.named_tasks t where t.namespace = p_namespace and t.name = p_template and (p_version is null or t.version = p_version)) then
    perform tasker.raise_error('TK404', format('there is no template %s.%s%s', p_namespace, p_template, coalesce(' version ' || p_version, '')),
                               jsonb_build_object('namespace', p_namespace, 'template', p_template, 'version', p_version),
                               'Register it with register_template, or see them in tasker.named_tasks.');
  elsif p_vocabulary is not null and not exists (select from tasker.vocabularies v
                                                  where v.vocabulary = p_vocabulary and v.task_lifecycle is not null and v.step_lifecycle is not null) then
    perform tasker.raise_error('TK400', format('there is no vocabulary %L with tasks and steps', p_vocabulary), jsonb_build_object('vocabulary', p_vocabulary));
  end if;

  perform tasker.refuse_large(d.name, d.document, p_namespace)
     from (values ('the context', p_context), ('the tags', p_tags)) as d(name, document);
  insert into tasker.schedules as known
    (namespace, schedule, cron, time_zone, template, version, vocabulary, context, tags, priority, catch_up, overlap, requested_by, next_due_at)
  values (p_namespace, p_schedule, p_cron, p_time_zone, p_template, p_version, p_vocabulary, p_context, p_tags, coalesce(p_priority, 0), p_catch_up,
          p_overlap, p_requested_by, v_next)
      on conflict (namespace, schedule) do update
     set cron = excluded.cron, time_zone = excluded.time_zone, template = excluded.template, version = excluded.version,
         vocabulary = excluded.vocabulary, context = excluded.context, tags = excluded.tags, priority = excluded.priority,
         catch_up = excluded.catch_up, overlap = excluded.overlap, requested_by = excluded.requested_by,
         -- the same times again leave one that is due as it is
         next_due_at = case when known.paused_at is not null then null
                            when (known.cron, known.time_zone) = (excluded.cron, excluded.time_zone) then known.next_due_at
                            else excluded.next_due_at end
   where (known.cron, known.time_zone, known.template, known.version, known.vocabulary, known.context, known.tags, known.priority,
          known.catch_up, known.overlap, known.requested_by)
         is distinct from
         (excluded.cron, excluded.time_zone, excluded.template, excluded.version, excluded.vocabulary, excluded.context, excluded.tags,
          excluded.priority, excluded.catch_up, excluded.overlap, excluded.requested_by);
  select s.next_due_at into v_next from tasker.schedules s where s.namespace = p_namespace and s.schedule = p_schedule;
  perform tasker.end_request(p_request_id, v_next::text);
  return v_next;
end
$$;
comment on function tasker.schedule_tasks(text, text, text, jsonb, text, text, text, text, jsonb, int, text, text, text, text) is
  'Creates a task from a template whenever the cron expression says so, by the clock of the time zone; called again it changes the schedule. Answers the next time; null while it is paused. p_catch_up: what of times that passed while nobody ticked (latest, all, none); p_overlap skip: no task while the one before is not finished.';
