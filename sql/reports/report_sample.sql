create or replace function tasker.report_sample(
  p_kind  text,
  p_from  timestamptz,
  p_until timestamptz,
  p_size  int,
  p_seed  text,
  out row_uuid uuid,
  out at       timestamptz,
  out record   jsonb
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
begin
  if p_size is null or p_size not between 1 and 100000 or coalesce(p_seed, '') = '' then
    perform tasker.raise_error('TK400', 'a sample needs a size of 1 to 100,000 and a seed', jsonb_build_object('size', p_size, 'seed', p_seed),
                               'The same seed draws the same sample again.');
  end if;
  return query
  select p.row_uuid, p.at, p.record
    from tasker.report_population(p_kind, p_from, p_until) p
   order by sha256(convert_to(p_seed || p.row_uuid, 'UTF8'))
   limit p_size;
end
$$;
comment on function tasker.report_sample(text, timestamptz, timestamptz, int, text) is
  'A sample of a population that the same seed draws again: the rows whose sha256 of seed and key come first.';
