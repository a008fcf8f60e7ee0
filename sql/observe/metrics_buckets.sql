create or replace function tasker.metrics_buckets() returns double precision[]
language sql
immutable
return array[0.01, 0.1, 1, 5, 15, 60, 300, 1800, 7200, 86400]::double precision[];
comment on function tasker.metrics_buckets() is 'Upper bounds, in seconds, of the buckets in which time in state is counted. Bucket 0 ends at the first; what is longer than the last stands in one more.';
