create or replace function tasker.uuid_at(p_series text, p_position bigint) returns uuid
language sql
immutable
parallel safe
return (p_series || lpad(to_hex(p_position), 6, '0'))::uuid;
comment on function tasker.uuid_at(text, bigint) is
  'The uuid at this position of a series, below 16,777,216; later positions sort later.';
