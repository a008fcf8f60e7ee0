create or replace function tasker.counted_between(
  p_kind  text,
  p_from  timestamptz,
  p_until timestamptz,
  out at       timestamptz,
  out n        bigint,
  out failures bigint
) returns setof record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
begin
  -- a statement for each kind, so that none looks where the others stand
  case p_kind
    when 'result' then
      return query
      select tasker.bucket_of(r.at, 86400), count(*), count(*) filter (where not r.success)
        from tasker.counted_rows r where r.kind = 'result' and r.at >= p_from and r.at < p_until
       group by 1;
    when 'task' then
      return query
      select tasker.bucket_of(r.at, 86400), count(*), 0::bigint
        from tasker.counted_rows r where r.kind = 'task' and r.at >= p_from and r.at < p_until
       group by 1;
    when 'unaudited' then
      return query
      select tasker.bucket_of(r.at, 86400), count(*), 0::bigint
        from tasker.counted_rows r where r.kind = 'unaudited' and r.at >= p_from and r.at < p_until
         and not exists (select from tasker.uncounted_rows() u where u.log_row_uuid = r.log_row_uuid)
       group by 1;
  end case;
end
$$;
comment on function tasker.counted_between(text, timestamptz, timestamptz) is
  'How many tasks, results, and sealed results without an audit row there are in a short time, by day; counted row by row.';
