create or replace function tasker.report_sample(
  p_kind  text,
  p_from  timestamptz,
  p_until timestamptz,
  p_size  int,
  p_seed  text,
  out ordinal    bigint,
  out population bigint,
  out row_uuid   uuid,
  out at         timestamptz,
  out record     jsonb
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set jit = off
as $$
declare
  c_rows_for_one constant int := 1000;  -- so many are numbered in the time in which one is looked up
  v_kind     text := case p_kind when 'results' then 'result' when 'tasks' then 'task' end;
  v_numbers  bigint[];
begin
  perform tasker.refuse_bound_login('a sample is drawn from all of them');
  if p_size is null or p_size not between 1 and 100000 or coalesce(p_seed, '') = '' then
    perform tasker.raise_error('TK400', 'a sample needs a size of 1 to 100,000 and a seed', jsonb_build_object('size', p_size, 'seed', p_seed),
                               'The same seed draws the same sample again.');
  end if;
  if v_kind is null then
    population := (select count(*) from tasker.report_population(p_kind, p_from, p_until));
  else
    population := (select coalesce(sum(case v_kind when 'task' then c.tasks else c.results end), 0) from tasker.report_counts(p_from, p_until) c);
  end if;
  v_numbers := tasker.drawn_numbers(population, p_size, p_seed);
  if v_kind is null then
    return query
    select p.ordinal, report_sample.population, p.row_uuid, p.at, p.record
      from (select p.*, row_number() over (order by p.at, p.row_uuid) as ordinal from tasker.report_population(p_kind, p_from, p_until) p) p
     where p.ordinal = any (v_numbers)
     order by p.ordinal;
  elsif population / c_rows_for_one < p_size then
    return query
    select p.ordinal, report_sample.population, p.row_uuid, p.at, tasker.population_record(v_kind, p.row_uuid, p.log_row_uuid)
      from (select r.row_uuid, r.at, r.log_row_uuid, row_number() over (order by r.at, r.row_uuid) as ordinal
              from tasker.counted_rows r
             where r.kind = v_kind and r.at >= p_from and r.at < p_until) p
     where p.ordinal = any (v_numbers)
     order by p.ordinal;
  else
    return query
    select p.ordinal, report_sample.population, p.row_uuid, p.at, tasker.population_record(v_kind, p.row_uuid, p.log_row_uuid)
      from tasker.numbered_rows(v_kind, p_from, p_until, v_numbers) p
     order by p.ordinal;
  end if;
end
$$;
comment on function tasker.report_sample(text, timestamptz, timestamptz, int, text) is
  'A sample of a population that the same seed draws again. The population is numbered by time and key (report_population lists it so); the seed draws numbers, each as likely as any other (drawn_numbers).';
