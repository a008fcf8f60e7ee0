create or replace function tasker.validation_time(p_acceptance jsonb) returns interval
language sql
immutable
-- and 5 s in which the worker can say itself what took too long
return (select sum(case when jsonb_typeof(c.acceptance_check -> 'timeout') = 'number'
                        then (c.acceptance_check ->> 'timeout')::double precision else 30 end) + 5
          from jsonb_array_elements(p_acceptance) as c(acceptance_check)) * interval '1 second';
comment on function tasker.validation_time(jsonb) is
  'How long a worker may take for these acceptance checks (seed 002, VALIDATING: the sum of all test timeouts, 30 s each unless told otherwise).';
