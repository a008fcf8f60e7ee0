create or replace function tasker.decision_problem(p_creates jsonb, p_result jsonb) returns text
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select case when jsonb_typeof(p_result -> 'create') is distinct from 'array' or jsonb_path_exists(p_result -> 'create', '$[*] ? (@.type() != "string")')
              then 'a decision answers {"create": [...]} with names of steps'
              else (select format('it may not create %s; it may create %s', string_agg(c.name, ', ' order by c.name),
                                  (select string_agg(k, ', ' order by k) from jsonb_object_keys(p_creates) k))
                      from jsonb_array_elements_text(p_result -> 'create') as c(name) where not p_creates ? c.name having count(*) > 0) end
$$;
comment on function tasker.decision_problem(jsonb, jsonb) is 'What is wrong with the result of a decision that may create these steps; null: nothing.';
