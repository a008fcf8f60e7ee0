create or replace function tasker.cron_times(
  p_cron      text,
  p_time_zone text default 'UTC',
  p_after     timestamptz default null,
  p_until     timestamptz default null,
  p_limit     int default 10
) returns setof timestamptz
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  if not exists (select from pg_timezone_names z where z.name = p_time_zone) then
    perform tasker.raise_error('TK400', format('there is no time zone %s', coalesce(p_time_zone, 'null')), jsonb_build_object('time_zone', p_time_zone),
                               'Name one as UTC or Europe/Berlin; select name from pg_timezone_names.');
  elsif p_limit is null or p_limit not between 1 and 100000 then
    perform tasker.raise_error('TK400', format('can''t list %s times', coalesce(p_limit::text, 'null')), jsonb_build_object('limit', p_limit),
                               'List 1 to 100,000 times in one call.');
  end if;
  return query select t from tasker.walk_cron(p_cron, p_time_zone, coalesce(p_after, tasker.clock()), p_until, p_limit) t;
end
$$;
comment on function tasker.cron_times(text, text, timestamptz, timestamptz, int) is
  'The next times of a cron expression by the clock of a time zone, after p_after (null: now) and up to p_until. An hour that is named comes once a day, however the clocks are set; a starred hour comes every hour.';
