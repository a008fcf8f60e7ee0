-- The errors that callers can meet. The number follows HTTP, so that a gateway need not translate.
insert into tasker.error_catalogue (code, name, http_status, is_retryable, description) values
  ('TK400', 'invalid_definition',   400, false, 'The input is not well formed; DETAIL lists every problem found.'),
  ('TK403', 'not_owner',            403, false, 'Another processor owns the task and its lease is alive, or the caller may not do this.'),
  ('TK404', 'not_found',            404, false, 'There is no such task, step, template, worker or lifecycle.'),
  ('TK409', 'invalid_transition',   409, false, 'The lifecycle has no such transition from the current state.'),
  ('TK412', 'stale_claim',          412, false, 'The claim is not current any more: the lease ended or the step was taken away. Nothing changed.'),
  ('TK413', 'payload_too_large',    413, false, 'It is bigger than its namespace allows. Nothing was stored: keep it elsewhere and hand on where, or raise the limit (set_payload_limits).'),
  ('TK422', 'guard_failed',         422, false, 'The transition exists, but its guard does not hold now.'),
  ('TK423', 'idempotency_conflict', 409, false, 'The same key was used before with another request.'),
  ('TK429', 'limit_exceeded',       429, true,  'A limit is reached; the same call may succeed later or with less.'),
  ('TK503', 'circuit_open',         503, true,  'The circuit breaker of the tool is open.')
on conflict (code) do update
  set name = excluded.name, http_status = excluded.http_status, is_retryable = excluded.is_retryable,
      description = excluded.description;
