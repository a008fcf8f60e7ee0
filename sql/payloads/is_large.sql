create or replace function tasker.is_large(p_document jsonb) returns boolean
language sql
stable
-- read off the header of the value: no threshold or limit is smaller, so most documents are never measured
return pg_column_size(p_document) > 4096;
comment on function tasker.is_large(jsonb) is
  'Whether a document that was just given is worth measuring. One that comes from a table may be compressed, and tells nothing.';
