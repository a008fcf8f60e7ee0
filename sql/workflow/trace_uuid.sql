create or replace function tasker.trace_uuid(p_tags jsonb) returns uuid
language sql
immutable
return nullif(substring(p_tags ->> 'traceparent' from '^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}'), repeat('0', 32))::uuid;
comment on function tasker.trace_uuid(jsonb) is
  'The trace id of the W3C traceparent among a task''s tags, as a uuid: both are 128 bits. Null without one, or if it is malformed. It is the correlation id of tasks that are given no other.';
