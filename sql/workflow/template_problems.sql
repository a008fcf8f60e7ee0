create or replace function tasker.template_problems(p_template jsonb) returns jsonb
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_nestloop = off  -- the planner can't know how long a JSON array is
set jit = off
as $$
declare
  c_fields      constant text[] := array['name', 'namespace', 'version', 'description', 'vocabulary', 'timeout_seconds', 'max_retries', 'worker_count',
                                         'final_validation', 'sensitive', 'compensate', 'steps'];
  c_step_fields constant text[] := array['name', 'handler', 'depends_on', 'arguments', 'retryable', 'max_attempts', 'retry', 'timeout_seconds', 'tool',
                                         'requires', 'acceptance', 'on_failure', 'run_when', 'for_each', 'created_by', 'condition', 'when_unmet', 'delay_seconds', 'sensitive',
                                         'sensitive_result', 'wait_for', 'workflow', 'undo'];
  c_undo_fields constant text[] := array['handler', 'arguments', 'max_attempts', 'retry', 'timeout_seconds', 'tool'];
  v_problems jsonb;
  v_cycle    text[];
begin
  if p_template is null or jsonb_typeof(p_template) <> 'object' then
    return jsonb_build_array(jsonb_build_object('path', '', 'message', 'a workflow must be a JSON object'));
  end if;

  with steps as (
    select s.position, s.step, s.step ->> 'name' as name, format('steps[%s]', s.position - 1) as path
      from jsonb_array_elements(case when jsonb_typeof(p_template -> 'steps') = 'array'
                                     then p_template -> 'steps' else '[]' end) with ordinality as s(step, position)
  ), dependencies as (
    select s.path, s.name, d.dependency #>> '{}' as dependency
      from steps s
     cross join lateral jsonb_array_elements(case when jsonb_typeof(s.step -> 'depends_on') = 'array'
                                                  then s.step -> 'depends_on' else '[]' end) as d(dependency)
     where jsonb_typeof(s.step) = 'object' and jsonb_typeof(d.dependency) = 'string'
  ), limits (field, kind, lowest, highest, path, value) as (
    select l.field, l.kind, l.lowest, l.highest, s.path || '.' || replace(l.field, ',', '.'), s.step #> string_to_array(l.field, ',')
      from steps s
     cross join (values ('max_attempts', 'whole number', 1, 1000000), ('timeout_seconds', 'number', 0.001, 31536000), ('delay_seconds', 'number', 0, 31536000),
                        ('retry,base_delay', 'number', 0, 31536000), ('retry,max_delay', 'number', 0, 31536000),
                        ('retry,jitter', 'number', 0, 1),
                        ('undo,max_attempts', 'whole number', 1, 1000000), ('undo,timeout_seconds', 'number', 0.001, 31536000),
                        ('undo,retry,base_delay', 'number', 0, 31536000), ('undo,retry,max_delay', 'number', 0, 31536000), ('undo,retry,jitter', 'number', 0, 1)) as l(field, kind, lowest, highest)
     where jsonb_typeof(s.step) = 'object' and coalesce(jsonb_typeof(s.step #> string_to_array(l.field, ',')), 'null') <> 'null'
  ), problems (path, message) as (
    select 'name', 'a workflow needs a name of 1 to 255 characters'
     where coalesce(jsonb_typeof(p_template -> 'name'), '') <> 'string' or length(p_template ->> 'name') not between 1 and 255
     union all
    select f.field, format('%s must be a string', f.field) from (values ('namespace'), ('version'), ('description'), ('vocabulary')) as f(field)
     where p_template ? f.field and jsonb_typeof(p_template -> f.field) not in ('string', 'null')
     union all
    select 'namespace', 'a namespace has 1 to 63 letters, digits, underscores, dots and hyphens, beginning with a letter or digit'
     where jsonb_typeof(p_template -> 'namespace') = 'string' and p_template ->> 'namespace' !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'
     union all
    select 'version', 'a version has 1 to 128 characters'
     where jsonb_typeof(p_template -> 'version') = 'string' and length(p_template ->> 'version') not between 1 and 128
     union all
    select 'vocabulary', format('there is no vocabulary %L with tasks and steps', p_template ->> 'vocabulary')
     where not exists (select from tasker.vocabularies v
                        where v.vocabulary = coalesce(p_template ->> 'vocabulary', 'tasker')
                          and v.task_lifecycle is not null and v.step_lifecycle is not null)
     union all
    select 'steps', 'steps must be an array' where coalesce(jsonb_typeof(p_template -> 'steps'), '') <> 'array'
     union all
    select k.key, 'unknown field; known are ' || array_to_string(c_fields, ', ')
      from jsonb_object_keys(p_template) as k(key) where k.key <> all (c_fields)
     union all
    select s.path, 'a step must be a JSON object' from steps s where jsonb_typeof(s.step) <> 'object'
     union all
    select s.path || '.name', 'a step needs a name of 1 to 255 characters' from steps s
     where jsonb_typeof(s.step) = 'object' and (coalesce(jsonb_typeof(s.step -> 'name'), '') <> 'string' or length(s.name) not between 1 and 255)
     union all
    select min(s.path) || '.name', format('%s steps are called %L', count(*), s.name) from steps s
     where s.name is not null group by s.name having count(*) > 1
     union all
    select s.path || '.' || k.key, 'unknown field; known are ' || array_to_string(c_step_fields, ', ')
      from steps s cross join lateral jsonb_object_keys(case when jsonb_typeof(s.step) = 'object' then s.step else '{}' end) as k(key)
     where k.key <> all (c_step_fields)
     union all
    select s.path || '.retry.' || k.key, 'unknown field; known are base_delay, max_delay, jitter'
      from steps s cross join lateral jsonb_object_keys(case when jsonb_typeof(s.step -> 'retry') = 'object' then s.step -> 'retry' else '{}' end) as k(key)
     where k.key not in ('base_delay', 'max_delay', 'jitter')
     union all
    select s.path || '.' || f.field, format('%s must be %s', f.field, f.wanted)
      from steps s
     cross join (values ('handler', 'string', 'a string'), ('depends_on', 'array', 'an array of step names'),
                        ('arguments', 'object', 'a JSON object'), ('retryable', 'boolean', 'true or false'),
                        ('retry', 'object', 'a JSON object'), ('tool', 'string', 'a string'),
                        ('requires', 'array', 'an array of capabilities'),
                        ('acceptance', 'array', 'an array of acceptance checks')) as f(field, kind, wanted)
     where jsonb_typeof(s.step) = 'object' and coalesce(jsonb_typeof(s.step -> f.field), 'null') not in ('null', f.kind)
     union all
    select s.path || '.on_failure', 'on_failure must be block, stop or continue' from steps s
     where jsonb_typeof(s.step) = 'object' and coalesce(s.step ->> 'on_failure', 'block') not in ('block', 'stop', 'continue')
     union all
    select s.path || '.run_when', 'run_when must be all_satisfied, any_satisfied or all_finished' from steps s
     where jsonb_typeof(s.step) = 'object' and coalesce(jsonb_typeof(s.step -> 'run_when'), 'null') <> 'null'
       and s.step ->> 'run_when' not in ('all_satisfied', 'any_satisfied', 'all_finished')
     union all
    select s.path || '.run_when', format('%s speaks of dependencies, and the step has none', s.step ->> 'run_when') from steps s
     where jsonb_typeof(s.step) = 'object' and s.step ->> 'run_when' in ('any_satisfied', 'all_finished')
       and coalesce(s.step -> 'depends_on', 'null') in ('null', '[]')
     union all
    select s.path || '.run_when', 'any_satisfied takes at most 10,000 dependencies' from steps s
     where jsonb_typeof(s.step) = 'object' and s.step ->> 'run_when' = 'any_satisfied' and jsonb_typeof(s.step -> 'depends_on') = 'array'
       and jsonb_array_length(s.step -> 'depends_on') > 10000
     union all
    select s.path || '.for_each', 'for_each is an SQL/JSON path to a list that goes through one list at most, for example $.inputs.find.files[*]' from steps s
     where jsonb_typeof(s.step) = 'object' and coalesce(jsonb_typeof(s.step -> 'for_each'), 'null') <> 'null'
       and (jsonb_typeof(s.step -> 'for_each') <> 'string' or tasker.condition_path(s.step ->> 'for_each') is null)
     union all
    select s.path || '.for_each', format('for_each and %s do not go together: use a step beside it', o.field) from steps s
     cross join (values ('wait_for'), ('workflow')) as o(field)
     where jsonb_typeof(s.step) = 'object' and s.step ->> 'for_each' is not null and s.step ->> o.field is not null
     union all
    select s.path || '.arguments.' || k.key, format('each element has its own %s', k.key) from steps s
     cross join (values ('item'), ('index')) as k(key)
     where jsonb_typeof(s.step) = 'object' and s.step ->> 'for_each' is not null and s.step -> 'arguments' ? k.key
     union all
    select s.path || '.name', format('%L is what an element of step %L is called', s.name, m.name)
      from steps s join steps m on m.name = regexp_replace(s.name, '\[[0-9]+\]$', '')
     where s.name ~ '\[[0-9]+\]$' and jsonb_typeof(m.step) = 'object' and m.step ->> 'for_each' is not null
     union all
    select s.path || '.created_by', 'created_by names the step whose result says whether this one is created' from steps s
     where jsonb_typeof(s.step) = 'object' and coalesce(jsonb_typeof(s.step -> 'created_by'), 'null') not in ('null', 'string')
     union all
    select s.path || '.created_by', case when d.name is null then format('there is no step %L', s.step ->> 'created_by')
                                         else format('%L is there from the beginning only if nothing creates it, and is one step that runs a handler or waits', d.name) end
      from steps s left join steps d on d.name = s.step ->> 'created_by'
     where jsonb_typeof(s.step -> 'created_by') = 'string'
       and (d.name is null or d.step ->> 'created_by' is not null or d.step ->> 'for_each' is not null or jsonb_typeof(d.step -> 'workflow') = 'object')
     union all
    select s.path || '.sensitive', 'a step that a decision creates has no sensitive arguments' from steps s
     where jsonb_typeof(s.step) = 'object' and s.step ->> 'created_by' is not null and coalesce(s.step -> 'sensitive', 'null') <> 'null'
     union all
    select d.path || '.depends_on', format('step %L depends on %L, which another decision creates', d.name, d.dependency)
      from dependencies d join steps s on s.path = d.path join steps p on p.name = d.dependency
     where s.step ->> 'created_by' <> p.step ->> 'created_by'
     union all
    select s.path || '.run_when', 'any_satisfied and what a decision creates do not go together' from steps s
     where jsonb_typeof(s.step) = 'object' and s.step ->> 'run_when' = 'any_satisfied'
       and (s.step ->> 'created_by' is not null
            or exists (select from dependencies d join steps p on p.name = d.dependency and p.step ->> 'created_by' is not null where d.path = s.path))
     union all
    select l.path, 'sensitive must be an array of keys or JSON Pointers'
      from (select 'sensitive' as path, p_template -> 'sensitive' as list
             union all
            select s.path || '.sensitive', s.step -> 'sensitive' from steps s where jsonb_typeof(s.step) = 'object') l
     where coalesce(jsonb_typeof(l.list), 'null') <> 'null'
       and (jsonb_typeof(l.list) <> 'array'
            or jsonb_path_exists(l.list, '$[*] ? (@.type() != "string" || @ == "" || @ == "/")'))
     union all
    select s.path || '.undo', 'undo must be the name of a handler, or an object with one' from steps s
     where jsonb_typeof(s.step) = 'object' and coalesce(jsonb_typeof(s.step -> 'undo'), 'null') <> 'null'
       and coalesce(case jsonb_typeof(s.step -> 'undo') when 'string' then s.step ->> 'undo'
                                                        when 'object' then s.step #>> '{undo,handler}' end, '') = ''
     union all
    select s.path || '.undo.' || k.key, 'unknown field; known are ' || array_to_string(c_undo_fields, ', ')
      from steps s cross join lateral jsonb_object_keys(case when jsonb_typeof(s.step #> '{undo}') = 'object' then s.step -> 'undo' else '{}' end) as k(key)
     where k.key <> all (c_undo_fields)
     union all
    select s.path || '.undo.' || f.field, format('%s must be %s', f.field, f.wanted)
      from steps s
     cross join (values ('handler', 'string', 'a string'), ('arguments', 'object', 'a JSON object'), ('retry', 'object', 'a JSON object'),
                        ('tool', 'string', 'a string')) as f(field, kind, wanted)
     where jsonb_typeof(s.step #> '{undo}') = 'object' and coalesce(jsonb_typeof(s.step #> array['undo', f.field]), 'null') not in ('null', f.kind)
     union all
    select s.path || '.undo.retry.' || k.key, 'unknown field; known are base_delay, max_delay, jitter'
      from steps s cross join lateral jsonb_object_keys(case when jsonb_typeof(s.step #> '{undo,retry}') = 'object' then s.step #> '{undo,retry}' else '{}' end) as k(key)
     where k.key not in ('base_delay', 'max_delay', 'jitter')
     union all
    select s.path || '.undo.arguments', format('%s is sensitive: an undo gets the arguments of its step, so give it there', p.pointer)
      from steps s
     cross join lateral jsonb_array_elements_text(case when jsonb_typeof(s.step #> '{sensitive}') = 'array' then s.step -> 'sensitive' else '[]' end) as p(pointer)
     where jsonb_typeof(s.step #> '{undo,arguments}') = 'object' and s.step #> '{undo,arguments}' #> tasker.json_path(p.pointer) is not null
     union all
    select 'compensate', 'compensate must be a list of the ends after which completed steps are undone: failed, cancelled'
     where coalesce(jsonb_typeof(p_template -> 'compensate'), 'null') <> 'null'
       and (jsonb_typeof(p_template -> 'compensate') <> 'array' or not p_template -> 'compensate' <@ '["failed", "cancelled"]')
     union all
    select 'compensate', format('vocabulary %s has no state for a task that %s', coalesce(p_template ->> 'vocabulary', 'tasker'), e.says)
      from (values ('failed', 'failed'), ('cancelled', 'was cancelled')) as e(ends, says)
     where coalesce(nullif(p_template -> 'compensate', 'null'), '["failed"]') ? e.ends and jsonb_path_exists(p_template, '$.steps[*].undo')
       and not exists (select from tasker.vocabularies v
                         join tasker.lifecycle_transitions r on r.lifecycle = v.task_lifecycle and (r.operation = 'cancel_task') = (e.ends = 'cancelled')
                         join tasker.lifecycle_states s on s.lifecycle = r.lifecycle and s.state = r.to_state and s.is_terminal and not s.satisfies_dependencies
                        where v.vocabulary = coalesce(p_template ->> 'vocabulary', 'tasker'))
     union all
    select s.path || '.sensitive_result', 'sensitive_result must be true or false' from steps s
     where jsonb_typeof(s.step) = 'object' and coalesce(jsonb_typeof(s.step -> 'sensitive_result'), 'null') not in ('null', 'boolean')
     union all
    select s.path || '.condition', 'a condition is an SQL/JSON path that goes through one list at most, for example $.inputs.check.score > 0.8' from steps s
     where jsonb_typeof(s.step) = 'object' and coalesce(jsonb_typeof(s.step -> 'condition'), 'null') <> 'null'
       and (jsonb_typeof(s.step -> 'condition') <> 'string' or tasker.condition_path(s.step ->> 'condition') is null)
     union all
    select s.path || '.condition', format('vocabulary %s has no state for a step that is left out', p_template ->> 'vocabulary') from steps s
     where jsonb_typeof(s.step) = 'object' and s.step ->> 'condition' is not null and s.step ->> 'when_unmet' is distinct from 'fail'
       and not tasker.can_leave_out(coalesce(p_template ->> 'vocabulary', 'tasker'))
     union all
    select s.path || '.when_unmet', 'when_unmet must be skip, skip_dependents or fail, and belongs to a condition' from steps s
     where jsonb_typeof(s.step) = 'object' and s.step ->> 'when_unmet' is not null
       and (s.step ->> 'when_unmet' not in ('skip', 'skip_dependents', 'fail') or s.step ->> 'condition' is null)
     union all
    select w.path, w.message from tasker.wait_problems(p_template) w
     union all
    select w.path, w.message from tasker.workflow_problems(p_template) w
     union all
    select 'worker_count', 'must be a whole number from 1 to 10'
     where coalesce(jsonb_typeof(p_template -> 'worker_count'), 'null') <> 'null'
       and (jsonb_typeof(p_template -> 'worker_count') <> 'number'
            or (p_template ->> 'worker_count')::numeric not between 1 and 10 or (p_template ->> 'worker_count')::numeric % 1 <> 0)
     union all
    select 'final_validation', 'must be true or false'
     where coalesce(jsonb_typeof(p_template -> 'final_validation'), 'null') not in ('null', 'boolean')
     union all
    select 'final_validation', format('vocabulary %s has no state in which a task waits for its final validation', coalesce(p_template ->> 'vocabulary', 'tasker'))
     where p_template -> 'final_validation' = 'true' and not tasker.can_be_validated(coalesce(p_template ->> 'vocabulary', 'tasker'))
     union all
    select 'max_retries', 'must be a whole number from 0 to 1000'
     where coalesce(jsonb_typeof(p_template -> 'max_retries'), 'null') <> 'null'
       and (jsonb_typeof(p_template -> 'max_retries') <> 'number'
            or (p_template ->> 'max_retries')::numeric not between 0 and 1000 or (p_template ->> 'max_retries')::numeric % 1 <> 0)
     union all
    select 'timeout_seconds', 'must be a number from 0.001 to 31536000'
     where coalesce(jsonb_typeof(p_template -> 'timeout_seconds'), 'null') <> 'null'
       and (jsonb_typeof(p_template -> 'timeout_seconds') <> 'number'
            or (p_template ->> 'timeout_seconds')::numeric not between 0.001 and 31536000)
     union all
    select format('%s.acceptance[%s]', s.path, c.position - 1),
           'an acceptance check is an object with a type: file_exists, python_import, js_import, command, lint or custom'
      from steps s
     cross join lateral jsonb_array_elements(case when jsonb_typeof(s.step) = 'object' and jsonb_typeof(s.step -> 'acceptance') = 'array'
                                                  then s.step -> 'acceptance' else '[]' end) with ordinality as c(acceptance_check, position)
     where jsonb_typeof(c.acceptance_check) <> 'object'
        or coalesce(c.acceptance_check ->> 'type', '') not in ('file_exists', 'python_import', 'js_import', 'command', 'lint', 'custom')
     union all
    select s.path || '.depends_on', 'depends_on must be an array of step names'
      from steps s
     cross join lateral jsonb_array_elements(case when jsonb_typeof(s.step -> 'depends_on') = 'array'
                                                  then s.step -> 'depends_on' else '[]' end) as d(dependency)
     where jsonb_typeof(s.step) = 'object' and jsonb_typeof(d.dependency) <> 'string'
     union all
    select l.path, format('must be a %s from %s to %s', l.kind, l.lowest, l.highest) from limits l
     where jsonb_typeof(l.value) <> 'number'
        or (l.value)::text::numeric not between l.lowest and l.highest
        or (l.kind = 'whole number' and (l.value)::text::numeric % 1 <> 0)
     union all
    select d.path || '.depends_on', format('step %L depends on %L, which is not a step of this workflow', d.name, d.dependency)
      from dependencies d left join steps s on s.name = d.dependency where s.name is null
     union all
    select d.path || '.depends_on', format('step %L depends on itself', d.name) from dependencies d where d.dependency = d.name
     union all
    select d.path || '.depends_on', format('step %L names %L twice', d.name, d.dependency)
      from dependencies d group by d.path, d.name, d.dependency having count(*) > 1
  )
  select coalesce(jsonb_agg(distinct jsonb_build_object('path', p.path, 'message', p.message)), '[]')
    into v_problems
    from problems p;

  v_cycle := tasker.find_cycle(tasker.with_decisions(p_template));
  if cardinality(v_cycle) > 0 then
    v_problems := v_problems || jsonb_build_object(
      'path', 'steps', 'message', 'these steps wait for each other in a circle: ' || array_to_string(v_cycle[1:10], ', ')
                                  || case when cardinality(v_cycle) > 10 then format(' and %s more', cardinality(v_cycle) - 10) else '' end);
  end if;
  return v_problems;
end
$$;
comment on function tasker.template_problems(jsonb) is
  'Everything that is wrong with a workflow definition, at once: [{"path", "message"}].';
