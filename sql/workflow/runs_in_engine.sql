create or replace function tasker.runs_in_engine(p_options jsonb) returns boolean
language sql
immutable
return coalesce(p_options ?| array['fails', 'unanswered', 'elements', 'workflow'] or p_options -> 'handler' = 'null', false);
comment on function tasker.runs_in_engine(jsonb) is
  'Whether a step with these options is run by the engine itself and never handed to a worker: one that fails, never got its event, gathers its elements, runs a workflow, or has no handler.';
