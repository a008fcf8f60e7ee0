create or replace function tasker.walk_cron(
  p_cron      text,
  p_time_zone text,
  p_after     timestamptz,
  p_until     timestamptz,
  p_limit     int
) returns setof timestamptz
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  v_fields   text[] := regexp_split_to_array(
    case lower(btrim(p_cron)) when '@hourly' then '0 * * * *' when '@daily' then '0 0 * * *' when '@midnight' then '0 0 * * *'
                              when '@weekly' then '0 0 * * 0' when '@monthly' then '0 0 1 * *' when '@yearly' then '0 0 1 1 *'
                              when '@annually' then '0 0 1 1 *' else btrim(p_cron) end, '\s+');
  v_minutes  int[] := tasker.cron_field(v_fields[1], 0, 59);
  v_hours    int[] := tasker.cron_field(v_fields[2], 0, 23);
  v_days     int[] := tasker.cron_field(v_fields[3], 1, 31);
  v_months   int[] := tasker.cron_field(v_fields[4], 1, 12, '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}');
  v_weekdays int[] := array(select d % 7 from unnest(tasker.cron_field(v_fields[5], 0, 7, '{sun,mon,tue,wed,thu,fri,sat}')) d);
  v_left     int := p_limit;
  v_day      date;
  v_at       timestamptz;
begin
  if coalesce(cardinality(v_fields), 0) <> 5 or v_minutes is null or v_hours is null or v_days is null or v_months is null
     or cardinality(v_weekdays) = 0 then
    perform tasker.raise_error('TK400', format('%L is not a cron expression', coalesce(p_cron, 'null')), jsonb_build_object('cron', p_cron),
                               'Five fields: minute 0-59, hour 0-23, day of the month 1-31, month 1-12 or jan-dec, day of the week 0-7 or sun-sat; each *, 5, 1-5, */10 or a list of those. Or @hourly, @daily, @weekly, @monthly, @yearly.');
  end if;

  for v_day in
    select d::date
      -- 29 February comes again after eight years at the latest
      from generate_series((p_after at time zone p_time_zone)::date::timestamp,
                           least((p_after at time zone p_time_zone)::date + 3000, (p_until at time zone p_time_zone)::date)::timestamp,
                           interval '1 day') d
     where extract(month from d)::int = any (v_months)
       and case when v_fields[3] like '*%' or v_fields[5] like '*%'
                then extract(day from d)::int = any (v_days) and extract(dow from d)::int = any (v_weekdays)
                -- both given: either
                else extract(day from d)::int = any (v_days) or extract(dow from d)::int = any (v_weekdays) end
     order by d
  loop
    for v_at in
      select distinct t.at
        from (-- a given hour is meant once on each day, also on the day when clocks are set back or forth over it
              select (v_day + make_time(h, m, 0)) at time zone p_time_zone as at
                from unnest(v_hours) h cross join unnest(v_minutes) m
               where v_fields[2] not like '*%'
               union all
              -- every hour is meant every hour
              select a
                from generate_series(v_day::timestamp at time zone p_time_zone,
                                     (v_day + 1)::timestamp at time zone p_time_zone - interval '1 minute', interval '1 minute') a
               where v_fields[2] like '*%'
                 and extract(minute from a at time zone p_time_zone)::int = any (v_minutes)
                 and extract(hour from a at time zone p_time_zone)::int = any (v_hours)) t
       where t.at > p_after and (p_until is null or t.at <= p_until)
       order by t.at
       limit v_left
    loop
      return next v_at;
      v_left := v_left - 1;
    end loop;
    exit when v_left <= 0;
  end loop;
end
$$;
comment on function tasker.walk_cron(text, text, timestamptz, timestamptz, int) is
  'The times of a cron expression after p_after, up to p_until, in a time zone that is known to be one: to ask the server whether it is takes longer than everything else here. TK400 for what is no expression.';
