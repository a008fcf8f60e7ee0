create or replace function tasker.map_items(p_document jsonb, p_path jsonpath) returns jsonb
language sql
immutable
-- in strict mode what does not lead there is an error, which is null here
return case when jsonb_path_exists(p_document, p_path, '{}', true) is null then null
            when tasker.list_walks(p_path) > 0 then jsonb_path_query_array(p_document, p_path, '{}', true)
            when jsonb_typeof(jsonb_path_query_first(p_document, p_path, '{}', true)) = 'array' then jsonb_path_query_first(p_document, p_path, '{}', true) end;
comment on function tasker.map_items(jsonb, jsonpath) is
  'The elements that an SQL/JSON path leads to: what it finds in the list that it goes through, or the one array that it names. Null if there is no list.';
