create or replace function tasker.lies_ahead(p_moment timestamptz, p_now timestamptz, p_most interval) returns boolean
language sql
immutable
-- Others may be ahead of p_now, but not by long; what is further away was written before the clock was set back.
return p_moment > p_now and p_moment <= p_now + p_most + interval '10 minutes';
comment on function tasker.lies_ahead(timestamptz, timestamptz, interval) is
  'Whether a moment that was set at most so long ahead is still to come.';
