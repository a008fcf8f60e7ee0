create or replace function tasker.wait_problems(p_template jsonb, out path text, out message text) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
set enable_nestloop = off  -- the planner can't know how long a JSON array is
set jit = off
as $$
  with steps as (
    select s.step, format('steps[%s].wait_for', s.position - 1) as path, s.step -> 'wait_for' as wait_for
      from jsonb_array_elements(case when jsonb_typeof(p_template -> 'steps') = 'array' then p_template -> 'steps' else '[]' end)
           with ordinality as s(step, position)
     where jsonb_typeof(s.step) = 'object' and coalesce(jsonb_typeof(s.step -> 'wait_for'), 'null') <> 'null'
  ), waits as (
    select s.path, s.wait_for, s.step from steps s where jsonb_typeof(s.wait_for) = 'object'
  )
  select s.path, 'wait_for must be an object, for example {"event": "approved", "key": "$.context.order"}' from steps s
   where jsonb_typeof(s.wait_for) <> 'object'
   union all
  select w.path || '.' || k.key, 'unknown field; known are event, key, value, timeout_seconds, on_timeout'
    from waits w cross join lateral jsonb_object_keys(w.wait_for) as k(key)
   where k.key not in ('event', 'key', 'value', 'timeout_seconds', 'on_timeout')
   union all
  select w.path || '.event', 'an event has a name of 1 to 200 characters' from waits w
   where coalesce(jsonb_typeof(w.wait_for -> 'event'), '') <> 'string' or length(w.wait_for ->> 'event') not between 1 and 200
   union all
  select w.path || '.event', format('the step also depends on %L, whose result is the input of that name', w.wait_for ->> 'event') from waits w
   where jsonb_typeof(w.step -> 'depends_on') = 'array' and w.step -> 'depends_on' ? (w.wait_for ->> 'event')
   union all
  select w.path, 'give key, an SQL/JSON path over context and inputs, or value, the key itself' from waits w
   where (w.wait_for ->> 'key' is null) = (w.wait_for ->> 'value' is null)
   union all
  select w.path || '.key', 'a key is an SQL/JSON path that goes through one list at most, for example $.context.order; a fixed one is given as value'
    from waits w
   where w.wait_for ->> 'key' is not null
     and (jsonb_typeof(w.wait_for -> 'key') <> 'string' or tasker.condition_path(w.wait_for ->> 'key') is null)
   union all
  select w.path || '.value', 'a value is a string of 1 to 500 characters, or a number' from waits w
   where w.wait_for ->> 'value' is not null
     and (jsonb_typeof(w.wait_for -> 'value') not in ('string', 'number') or length(w.wait_for ->> 'value') not between 1 and 500)
   union all
  select w.path || '.timeout_seconds', 'must be a number from 0.001 to 31536000' from waits w
   where w.wait_for ->> 'timeout_seconds' is not null
     and case when jsonb_typeof(w.wait_for -> 'timeout_seconds') = 'number'
              then (w.wait_for ->> 'timeout_seconds')::numeric not between 0.001 and 31536000 else true end
   union all
  select w.path || '.on_timeout', 'on_timeout must be fail, skip or run, and belongs to timeout_seconds' from waits w
   where w.wait_for ->> 'on_timeout' is not null
     and (w.wait_for ->> 'on_timeout' not in ('fail', 'skip', 'run') or w.wait_for ->> 'timeout_seconds' is null)
   union all
  select w.path || '.on_timeout', format('vocabulary %s has no state for a step that is left out', p_template ->> 'vocabulary') from waits w
   where w.wait_for ->> 'on_timeout' = 'skip' and not tasker.can_leave_out(coalesce(p_template ->> 'vocabulary', 'tasker'))
$$;
comment on function tasker.wait_problems(jsonb) is 'What is wrong with the events for which steps of a workflow definition wait.';
