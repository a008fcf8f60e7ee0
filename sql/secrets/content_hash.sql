create or replace function tasker.content_hash(p_content text, p_salted boolean) returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
begin
  return encode(sha256(convert_to(case when p_salted then (select h.salt from tasker.hash_salt h) else '' end || p_content, 'UTF8')), 'hex');
end
$$;
comment on function tasker.content_hash(text, boolean) is
  'A digest by which the same content is known again; salted where the content may be secret and easily guessed.';
