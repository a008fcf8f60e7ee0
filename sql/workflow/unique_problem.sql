create or replace function tasker.unique_problem(p_request jsonb) returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select case
    when n.given = '{}' then null
    when n.given -> 'unique_key' is null then format('%s belongs to a unique_key', (select min(k) from jsonb_object_keys(n.given) k))
    when jsonb_typeof(n.given -> 'unique_key') <> 'string' or length(n.given ->> 'unique_key') not between 1 and 255 then 'unique_key has 1 to 255 characters'
    when exists (select from jsonb_each(n.given - 'unique_key') f
                  where jsonb_typeof(f.value) <> 'number' or f.value::numeric not between 0.001 and 31536000)
      then 'unique_seconds, debounce_seconds and debounce_max_seconds are numbers from 0.001 to 31536000'
    when n.given ?& array['unique_seconds', 'debounce_seconds'] then 'give either unique_seconds or debounce_seconds'
    when n.given ? 'debounce_max_seconds' and not n.given ? 'debounce_seconds' then 'debounce_max_seconds belongs to debounce_seconds'
    when (n.given ->> 'debounce_max_seconds')::numeric < (n.given ->> 'debounce_seconds')::numeric then 'debounce_max_seconds is at least debounce_seconds'
    when n.given ? 'debounce_seconds' and (p_request ->> 'start_at' is not null or p_request -> 'start' = 'false')
      then 'debounce_seconds says when it starts: there is no start_at, and no start that is false, beside it' end
    from (select coalesce(jsonb_object_agg(f.key, f.value), '{}') as given
            from jsonb_each(p_request) f
           where f.key in ('unique_key', 'unique_seconds', 'debounce_seconds', 'debounce_max_seconds') and f.value <> 'null') n
$$;
comment on function tasker.unique_problem(jsonb) is 'What is wrong with how a request asks to be the only one; null: nothing.';
