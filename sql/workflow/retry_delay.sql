create or replace function tasker.retry_delay(
  p_attempt    int,
  p_base_delay interval,
  p_max_delay  interval,
  p_jitter     double precision,
  p_random     double precision default random()
) returns interval
language sql
volatile
-- a jitter too small to matter would underflow; the exponent is capped before the power is taken, and the cap on the delay holds with the jitter in it
return make_interval(secs => greatest(0, least(
         extract(epoch from p_max_delay)::double precision,
         extract(epoch from p_base_delay)::double precision
           * power(2::double precision, least(greatest(p_attempt - 1, 0), 60))
           * (1 + case when p_jitter < 1e-12 then 0 else p_jitter end * (2 * p_random - 1)))));
comment on function tasker.retry_delay(int, interval, interval, double precision, double precision) is
  'Seed 002 backoff: base * 2^(attempt - 1) * (1 +/- jitter), capped. p_attempt is the attempt that failed, from 1; p_random in [0, 1).';
