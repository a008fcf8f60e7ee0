create or replace function tasker.list_walks(p_path jsonpath) returns int
language sql
immutable
return regexp_count(regexp_replace(p_path::text, '"([^"\\]|\\.)*"', '', 'g'), '\[\*\]|\.\*|\mto\M|keyvalue');
comment on function tasker.list_walks(jsonpath) is 'Through how many lists an SQL/JSON path goes.';
