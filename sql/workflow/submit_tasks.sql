create or replace function tasker.submit_tasks(p_requests jsonb, p_request_id text default null) returns setof tasker.submitted_task
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
  c_fields   constant text[] := array['name', 'context', 'namespace', 'version', 'idempotency_key', 'correlation_id', 'priority',
                                      'parent_task_uuid', 'tags', 'requested_by', 'start', 'start_at', 'vocabulary',
                                      'unique_key', 'unique_seconds', 'debounce_seconds', 'debounce_max_seconds'];
  v_answer   text := tasker.begin_request(p_request_id, 'submit_tasks', case when p_request_id is not null then (
                  select jsonb_agg(case when jsonb_typeof(r.request) = 'object' then r.request || jsonb_build_object('tags', tasker.request_tags(r.request -> 'tags')) else r.request end order by r.position)
                    from jsonb_array_elements(case when jsonb_typeof(p_requests) = 'array' then p_requests else '[]' end) with ordinality as r(request, position)) end);
  v_problems jsonb;
  v_tasks    tasker.tasks[];
  v_plans    uuid[];
  v_start    boolean[];
  v_steps    tasker.named_steps[];
  v_vocabulary text;
  v_rules    tasker.unique_rule[];
  v_submitted tasker.submitted_task[];
  v_series   text := tasker.uuid_series();
  v_now      timestamptz := tasker.clock();
begin
  if v_answer is not null then
    return query select a.task_uuid, a.outcome from jsonb_to_recordset(v_answer::jsonb) as a(task_uuid uuid, outcome text);
    return;
  end if;
  if p_requests is null or jsonb_typeof(p_requests) <> 'array' then
    perform tasker.raise_error('TK400', 'requests must be a JSON array',
                               jsonb_build_object('got', coalesce(jsonb_typeof(p_requests), 'null')));
  end if;

  select jsonb_agg(jsonb_build_object('path', format('[%s]', p.position - 1), 'message', p.message) order by p.position)
    into v_problems
    from (select r.position,
                 case when jsonb_typeof(r.request) <> 'object' then 'a request must be a JSON object'
                      when r.request - c_fields <> '{}'
                        then format('unknown field %s; known are %s',
                                    (select string_agg(k, ', ' order by k) from jsonb_object_keys(r.request) k where k <> all (c_fields)),
                                    array_to_string(c_fields, ', '))
                      when coalesce(jsonb_typeof(r.request -> 'name'), '') <> 'string' then 'a request needs the name of a template'
                      when coalesce(jsonb_typeof(r.request -> 'context'), 'null') not in ('object', 'null') then 'context must be a JSON object'
                      when coalesce(jsonb_typeof(r.request -> 'tags'), 'null') not in ('object', 'null') then 'tags must be a JSON object'
                      when r.request ->> 'priority' !~ '^-?[0-9]{1,9}$' then 'priority must be a whole number'
                      when coalesce(jsonb_typeof(r.request -> 'start'), 'null') not in ('boolean', 'null') then 'start must be true or false'
                      when r.request ->> 'start_at' is not null
                           and coalesce(tasker.iso_timestamp(r.request ->> 'start_at') > clock_timestamp() + interval '100 years', true)
                        then 'start_at must be a time within 100 years, with its offset, such as 2026-03-01T06:30:00Z'
                      when r.request ->> 'start_at' is not null and r.request -> 'start' = 'false' then 'start_at says when it starts: start can''t be false'
                      when not tasker.is_uuid(r.request ->> 'correlation_id') then 'correlation_id must be a uuid'
                      when not tasker.is_uuid(r.request ->> 'parent_task_uuid') then 'parent_task_uuid must be a uuid'
                      when r.request ->> 'vocabulary' is not null
                           and not exists (select from tasker.vocabularies v
                                            where v.vocabulary = r.request ->> 'vocabulary'
                                              and v.task_lifecycle is not null and v.step_lifecycle is not null)
                        then format('there is no vocabulary %L with tasks and steps', r.request ->> 'vocabulary')
                      when length(r.request ->> 'idempotency_key') not between 1 and 255 then 'idempotency_key has 1 to 255 characters'
                      when r.request ?| array['unique_key', 'unique_seconds', 'debounce_seconds', 'debounce_max_seconds'] then tasker.unique_problem(r.request)
                 end as message
            from jsonb_array_elements(p_requests) with ordinality as r(request, position)
          offset 0) p  -- or the message would be made wherever it is named
   where p.message is not null;
  if v_problems is not null then
    perform tasker.raise_error('TK400', format('%s of the requests can''t be read: %s', jsonb_array_length(v_problems),
                                               v_problems -> 0 ->> 'message'),
                               jsonb_build_object('problems', v_problems), 'Nothing was created. Mend every problem and send it again.');
  end if;

  if tasker.bound_namespaces() is not null then
    perform tasker.refuse_foreign_namespace(n.namespace)
       from (select distinct coalesce(r.request ->> 'namespace', 'default') as namespace from jsonb_array_elements(p_requests) as r(request)) n;
  end if;

  with requests as materialized (
    select r.position, r.request, coalesce(r.request ->> 'namespace', 'default') as namespace, r.request ->> 'name' as name,
           r.request ->> 'version' as version,
           r.request ->> 'vocabulary' as vocabulary, tasker.iso_timestamp(r.request ->> 'start_at') as start_at,
           r.request ->> 'unique_key' as unique_key,
           case when r.request ->> 'unique_key' is not null
             then ((r.request ->> 'unique_seconds')::double precision * interval '1 second', (r.request ->> 'debounce_seconds')::double precision * interval '1 second',
                   (r.request ->> 'debounce_max_seconds')::double precision * interval '1 second')::tasker.unique_rule end as rule
      from jsonb_array_elements(p_requests) with ordinality as r(request, position)
  ), templates as materialized (
    select a.namespace, a.name, a.version, t.named_task_uuid, t.version as found_version, t.vocabulary,
           (t.configuration ->> 'timeout_seconds')::double precision * interval '1 second' as timeout,
           coalesce((t.configuration ->> 'max_retries')::int, 0) as max_retries,
           (t.configuration ->> 'worker_count')::int as worker_count, tasker.text_array(t.configuration -> 'sensitive') as sensitive,
           coalesce((t.configuration ->> 'final_validation')::boolean, false) as final_validation
      from (select distinct r.namespace, r.name, r.version from requests r) a
      left join lateral (select t.named_task_uuid, t.namespace, t.name, t.version, t.vocabulary, t.configuration from tasker.named_tasks t
                          where t.namespace = a.namespace and t.name = a.name and (a.version is null or t.version = a.version)
                          order by t.created_at desc, t.named_task_uuid desc limit 1) t on true
  ), parents as (
    select r.position from requests r
     where r.request ->> 'parent_task_uuid' is not null
       and not exists (select from tasker.tasks k where k.task_uuid = (r.request ->> 'parent_task_uuid')::uuid)
  )
  select (select jsonb_agg(jsonb_build_object('namespace', t.namespace, 'name', t.name, 'version', t.version))
            from templates t where t.named_task_uuid is null),
         (select array_agg((tasker.uuid_at(v_series, 2 * r.position), r.namespace, t.named_task_uuid, r.name, t.found_version,
                            coalesce(r.vocabulary, t.vocabulary), null,
                            (r.request ->> 'parent_task_uuid')::uuid,
                            coalesce((r.request ->> 'correlation_id')::uuid, tasker.trace_uuid(r.request -> 'tags'), tasker.uuid_at(v_series, 2 * r.position + 1)),
                            r.request ->> 'idempotency_key',
                            -- who asks and under which trace is no part of the request; a default is the same, spelled out or not
                            case when r.request ->> 'idempotency_key' is not null then tasker.content_hash((jsonb_build_array(
                              r.name, r.version, coalesce(nullif(r.request -> 'context', 'null'), '{}'),
                              tasker.request_tags(coalesce(nullif(r.request -> 'tags', 'null'), '{}')), coalesce((r.request ->> 'priority')::int, 0),
                              r.request ->> 'parent_task_uuid', coalesce((r.request ->> 'start')::boolean, true))
                              || case when r.vocabulary is null then '[]' else jsonb_build_array(r.vocabulary) end
                              || case when r.start_at is null then '[]' else jsonb_build_array(jsonb_build_object('start_at', r.start_at)) end
                              || case when r.unique_key is null then '[]' else jsonb_build_array(jsonb_build_object('unique', r.unique_key, 'rule', r.rule)) end)::text, t.sensitive is not null) end,
                            coalesce((r.request ->> 'priority')::int, 0), r.request ->> 'requested_by',
                            coalesce(nullif(r.request -> 'context', 'null'), '{}'), coalesce(nullif(r.request -> 'tags', 'null'), '{}'),
                            0, 0, 0, 0, 0, 0, null, null, null, t.timeout, 0, 0, t.max_retries, t.worker_count,
                            coalesce((select k.depth + 1 from tasker.tasks k
                                       where k.task_uuid = (r.request ->> 'parent_task_uuid')::uuid), 0), null, t.sensitive,
                            t.final_validation, coalesce(r.start_at, v_now + (r.rule).debounce), r.unique_key, null)::tasker.tasks order by r.position)
            from requests r
            join templates t on t.namespace = r.namespace and t.name = r.name and t.version is not distinct from r.version),
         (select array_agg(t.named_task_uuid order by r.position)
            from requests r
            join templates t on t.namespace = r.namespace and t.name = r.name and t.version is not distinct from r.version),
         (select array_agg(coalesce((r.request ->> 'start')::boolean, true) and coalesce(r.start_at <= v_now, true) and (r.rule).debounce is null order by r.position)
            from requests r),
         (select array_agg(r.rule order by r.position) from requests r having count(r.unique_key) > 0),
         (select array_agg(s) from tasker.named_steps s where s.named_task_uuid in (select t.named_task_uuid from templates t))
    into v_problems, v_tasks, v_plans, v_start, v_rules, v_steps;
  if v_problems is not null then
    perform tasker.raise_error(
      'TK404', format('there is no template %s.%s%s', v_problems -> 0 ->> 'namespace', v_problems -> 0 ->> 'name',
                      coalesce(' version ' || (v_problems -> 0 ->> 'version'), '')),
      jsonb_build_object('missing', v_problems), 'Register it with register_template, or see them in tasker.named_tasks.');
  end if;
  select jsonb_build_object('vocabulary', t.vocabulary, 'step', s.name, 'by', case when s.condition is null then 'wait_for' else 'condition' end)
    into v_problems
    from (select s.named_task_uuid, s.name, s.condition from unnest(v_steps) s  -- few are so: they come first
           where (s.condition is not null and s.options ->> 'when_unmet' is distinct from 'fail')
              or s.options #>> '{wait_for,on_timeout}' = 'skip' offset 0) s
   cross join lateral (select t.vocabulary from unnest(v_tasks) t
                        where t.named_task_uuid = s.named_task_uuid and not tasker.can_leave_out(t.vocabulary) limit 1) t
   limit 1;
  if found then
    perform tasker.raise_error('TK400', format('vocabulary %s has no state for a step that is left out, and step %s has a %s',
                                               v_problems ->> 'vocabulary', v_problems ->> 'step', v_problems ->> 'by'), v_problems,
                               'Take another vocabulary, or a template without conditions, and without events that may be skipped.');
  end if;
  select t.vocabulary into v_vocabulary from unnest(v_tasks) t where t.final_validation and not tasker.can_be_validated(t.vocabulary) limit 1;
  if found then
    perform tasker.raise_error('TK400', format('vocabulary %s has no state in which a task waits for its final validation', v_vocabulary),
                               jsonb_build_object('vocabulary', v_vocabulary, 'field', 'final_validation'),
                               'Take another vocabulary, orchestration for example, or a template without final_validation.');
  end if;
  if v_rules is null then
    v_submitted := array(
      select (c.task_uuid, case when c.task_uuid = c.asked then 'created' else 'found' end)::tasker.submitted_task
        from unnest(tasker.create_or_find_tasks(v_tasks, v_plans, coalesce(v_steps, '{}'), v_start),
                    array(select t.task_uuid from unnest(v_tasks) with ordinality as t order by t.ordinality)) with ordinality as c(task_uuid, asked, position)
       order by c.position);
  else
    v_submitted := tasker.create_unique_tasks(v_tasks, v_plans, coalesce(v_steps, '{}'), v_start, v_rules);
  end if;
  if p_request_id is not null then
    perform tasker.end_request(p_request_id, (select jsonb_agg(s order by s.ordinality)::text from unnest(v_submitted) with ordinality as s));
  end if;
  return query select s.task_uuid, s.outcome from unnest(v_submitted) with ordinality as s order by s.ordinality;
end
$$;
comment on function tasker.submit_tasks(jsonb, text) is
  'Creates many tasks in one call, all or none: [{"name", "context", "namespace", "version", "idempotency_key", "correlation_id", "priority", "parent_task_uuid", "tags", "requested_by", "start", "start_at", "vocabulary", "unique_key", "unique_seconds", "debounce_seconds", "debounce_max_seconds"}]. Answers, in the same order, the task of each request and whether it was created, found by its idempotency key, is a duplicate of one that stands for its unique key, or pushed back one that had not started.';
