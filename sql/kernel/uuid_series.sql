create or replace function tasker.uuid_series() returns text
language sql
volatile
return left(replace(tasker.uuid_generate_v7()::text, '-', ''), 26);
comment on function tasker.uuid_series() is
  'Begins a series of UUIDv7 for the rows of one statement: all but the last 24 bits of a new one. A server built without OpenSSL opens /dev/urandom for every uuid, which costs more than what is left to do with a row.';
