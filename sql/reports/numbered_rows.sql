create or replace function tasker.numbered_rows(
  p_kind    text,
  p_from    timestamptz,
  p_until   timestamptz,
  p_numbers bigint[],
  out ordinal      bigint,
  out at           timestamptz,
  out row_uuid     uuid,
  out log_row_uuid uuid
) returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
  v_uncounted timestamptz[] := array(select u.at from tasker.uncounted_rows() u where u.kind = p_kind and u.at >= p_from and u.at < p_until);
  v_lowers    timestamptz[];
  v_uppers    timestamptz[];
  v_widths    int[];
  v_befores   numeric[];
  v_before    numeric;
  v_width     int;
  v_lower     timestamptz;
  v_upper     timestamptz;
  v_place     bigint;
begin
  with parts as materialized (
    select p.* from tasker.period_parts(p_from, p_until) p
  ), buckets as (
    select b.lower, b.upper, p.width, b.n
      from parts p
     cross join lateral tasker.counted_buckets(p_kind, p.lower, p.upper, p.width, v_uncounted) b
     where p.width is not null
    union all
    select p.lower, p.upper, null, (select count(*) from tasker.counted_rows r where r.kind = p_kind and r.at >= p.lower and r.at < p.upper)
      from parts p
     where p.width is null
  )
  select array_agg(b.lower order by b.lower), array_agg(b.upper order by b.lower), array_agg(b.width order by b.lower),
         array_agg(b.before order by b.lower)
    into v_lowers, v_uppers, v_widths, v_befores
    from (select b.*, sum(b.n) over (order by b.lower) - b.n as before from buckets b where b.n > 0) b;

  foreach ordinal in array p_numbers loop
    select b.lower, b.upper, b.width, b.before into v_lower, v_upper, v_width, v_before
      from unnest(v_lowers, v_uppers, v_widths, v_befores) as b(lower, upper, width, before)
     where b.before < ordinal
     order by b.before desc
     limit 1;
    while v_width > 10 loop
      v_width := case v_width when 86400 then 900 else 10 end;
      select b.lower, b.upper, v_before + b.before into v_lower, v_upper, v_before
        from tasker.counted_buckets(p_kind, v_lower, v_upper, v_width, v_uncounted) b
       where b.before < ordinal - v_before
       order by b.before desc
       limit 1;
    end loop;
    -- the moment first, for which an index is enough; then the row
    v_place := ordinal - v_before;
    select r.at into at
      from tasker.counted_rows r
     where r.kind = p_kind and r.at >= v_lower and r.at < v_upper
     order by r.at
    offset v_place - 1
     limit 1;
    select r.row_uuid, r.log_row_uuid into row_uuid, log_row_uuid
      from tasker.counted_rows r
     where r.kind = p_kind and r.at = numbered_rows.at
     order by r.row_uuid
    offset v_place - 1 - (select count(*) from tasker.counted_rows b where b.kind = p_kind and b.at >= v_lower and b.at < numbered_rows.at)
     limit 1;
    return next;
  end loop;
end
$$;
comment on function tasker.numbered_rows(text, timestamptz, timestamptz, bigint[]) is
  'The tasks or results that have these numbers when those of the period are numbered by time and key: found through audit_counts, so that the others need not be read.';
