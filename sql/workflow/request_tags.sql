create or replace function tasker.request_tags(p_tags jsonb) returns jsonb
language sql
immutable
return case jsonb_typeof(p_tags) when 'object' then p_tags - array['traceparent', 'tracestate'] else p_tags end;
comment on function tasker.request_tags(jsonb) is
  'Tags as far as they are part of a request: the same request under another trace is the same request.';
