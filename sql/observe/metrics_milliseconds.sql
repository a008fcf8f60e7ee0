create or replace function tasker.metrics_milliseconds(p_interval interval) returns bigint
language sql
immutable
return round(extract(epoch from p_interval) * 1000)::bigint;
comment on function tasker.metrics_milliseconds(interval) is 'An interval in whole milliseconds.';
