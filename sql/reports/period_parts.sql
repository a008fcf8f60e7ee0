create or replace function tasker.period_parts(
  p_from  timestamptz,
  p_until timestamptz,
  out width int,
  out lower timestamptz,
  out upper timestamptz
) returns setof record
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
declare
  v_width int;
  v_first timestamptz;
  v_last  timestamptz;
begin
  lower := p_from;
  upper := p_until;
  -- whole buckets inside, as wide as they come; what is left on both sides goes by narrower ones, and at last by rows
  foreach v_width in array array[10, 900, 86400] loop
    v_first := tasker.bucket_of(lower, v_width);
    if v_first < lower then
      v_first := v_first + make_interval(secs => v_width);
    end if;
    v_last := tasker.bucket_of(upper, v_width);
    exit when v_first is null or v_last is null or v_first >= v_last;
    return query select r.* from (values (width, lower, v_first), (width, v_last, upper)) as r(width, lower, upper) where r.lower < r.upper;
    width := v_width;
    lower := v_first;
    upper := v_last;
  end loop;
  if lower < upper then
    return next;
  end if;
end
$$;
comment on function tasker.period_parts(timestamptz, timestamptz) is
  'A period in parts that audit_counts has buckets for: days, quarters of an hour, ten seconds; width is null for what is left at its ends, which is counted by rows.';
