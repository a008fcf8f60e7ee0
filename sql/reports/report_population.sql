create or replace function tasker.report_population(
  p_kind     text,
  p_from     timestamptz,
  p_until    timestamptz,
  p_after_at timestamptz default null,
  p_after    uuid default null,
  p_limit    int default null,
  out row_uuid uuid,
  out at       timestamptz,
  out record   jsonb
) returns setof record
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
  perform tasker.refuse_bound_login('a population covers all of them');
  if p_kind in ('results', 'tasks') then
    -- a cursor: each page is planned for what it is
    return query
    select p.row_uuid, p.at, tasker.population_record(p.kind, p.row_uuid, p.log_row_uuid)
      from (select r.* from tasker.counted_rows r
             where r.kind = case p_kind when 'results' then 'result' else 'task' end
               and r.at >= greatest(p_from, p_after_at) and r.at < p_until
               and (p_after is null or (r.at, r.row_uuid) > (p_after_at, p_after))
             order by r.at, r.row_uuid
             limit p_limit) p
     order by p.at, p.row_uuid;
  elsif p_kind = 'interventions' then
    return query
    select i.row_uuid, i.at, to_jsonb(i) from tasker.report_interventions(p_from, p_until) i
     where p_after is null or (i.at, i.row_uuid) > (p_after_at, p_after)
     order by i.at, i.row_uuid
     limit p_limit;
  elsif p_kind = 'refusals' then
    return query
    select j.rejected_transition_uuid, j.created_at, to_jsonb(j) from tasker.rejected_transitions j
     where j.created_at >= greatest(p_from, p_after_at) and j.created_at < p_until
       and (p_after is null or (j.created_at, j.rejected_transition_uuid) > (p_after_at, p_after))
     order by j.created_at, j.rejected_transition_uuid
     limit p_limit;
  else
    perform tasker.raise_error('TK400', format('there is no population %L', p_kind), jsonb_build_object('kind', p_kind),
                               'Ask for results, tasks, interventions or refusals.');
  end if;
end
$$;
comment on function tasker.report_population(text, timestamptz, timestamptz, timestamptz, uuid, int) is
  'The whole of what an auditor draws samples from, oldest first: results, tasks, interventions or refusals, from p_from until before p_until, here and in the archive. In pages: p_limit rows after the one whose at and row_uuid are p_after_at and p_after.';
