create or replace function tasker.json_path(p_pointer text) returns text[]
language sql
immutable
return case when p_pointer = '' then '{}'::text[]
            when p_pointer like '/%' then
              string_to_array(replace(replace(replace(substr(p_pointer, 2), '/', chr(31)), '~1', '/'), '~0', '~'), chr(31))
            else array[p_pointer] end;
comment on function tasker.json_path(text) is 'The path of a JSON Pointer (RFC 6901); what does not begin with a slash is one key.';
