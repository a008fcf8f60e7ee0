create or replace function tasker.is_uuid(p_text text) returns boolean
language sql
immutable
return case
  -- as they are printed: told without a regular expression that counts, which costs as much as writing a row
  when p_text like '________-____-____-____-____________' and p_text !~ '[^0-9a-f-]' and p_text not like '%-%-%-%-%-%' then true
  else p_text ~ '^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$'
end;
comment on function tasker.is_uuid(text) is 'Whether this text is a uuid, with or without hyphens; null for null.';
