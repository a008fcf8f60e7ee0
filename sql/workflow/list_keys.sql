create or replace function tasker.list_keys(p_path jsonpath) returns text[]
language sql
immutable
set search_path = pg_catalog, pg_temp
as $$
  select case when cardinality(k.keys) > 1 then k.keys else '{}' end
    from (select array(select (m.key)[1]::jsonb #>> '{}'
                         from regexp_matches(substring(p_path::text from '^strict \$((?:\."(?:[^"\\]|\\.)*")+)'), '"(?:[^"\\]|\\.)*"', 'g')
                              with ordinality as m(key, position)
                        order by m.position) as keys) k
$$;
comment on function tasker.list_keys(jsonpath) is 'The keys that lead to the list of a path, for example {inputs,find,files}; none if it does not begin with two keys.';
