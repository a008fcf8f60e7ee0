create or replace function tasker.clock() returns timestamptz
language sql
volatile
return (select clock_timestamp() + coalesce((select c.shift from tasker.test_clock c), interval '0'));
comment on function tasker.clock() is
  'The time by which leases, timers and timeouts are judged: the wall clock, not the start of the transaction. Tests may shift it; audit columns never read it.';
