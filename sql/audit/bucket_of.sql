create or replace function tasker.bucket_of(p_at timestamptz, p_width int) returns timestamptz
language sql
immutable
return date_bin(make_interval(secs => p_width), p_at, timestamptz '2000-01-01 00:00:00+00');
comment on function tasker.bucket_of(timestamptz, int) is 'The bucket of this width, in seconds, in which a moment lies.';
