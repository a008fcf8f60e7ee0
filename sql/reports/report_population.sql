create or replace function tasker.report_population(
  p_kind  text,
  p_from  timestamptz,
  p_until timestamptz,
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
  perform tasker.refuse_bound_login('a population covers all of them');
  if p_kind = 'results' then
    return query
    select a.workflow_step_result_audit_uuid, a.recorded_at, to_jsonb(a) from tasker.workflow_step_result_audit a
     where a.recorded_at >= p_from and a.recorded_at < p_until
    union all
    select (r.audit_content::jsonb ->> 2)::uuid, r.at, jsonb_build_object('archived', r.audit_content::jsonb) from tasker.archived_rows r
     where r.audit_content is not null and r.at >= p_from and r.at < p_until;
  elsif p_kind = 'tasks' then
    return query
    select t.task_uuid, t.created_at, to_jsonb(t) - array['context'] from tasker.tasks t where t.created_at >= p_from and t.created_at < p_until
    union all
    select t.task_uuid, t.created_at, (t.content -> 'task') - array['context'] from tasker.archived_tasks t
     where t.created_at >= p_from and t.created_at < p_until;
  elsif p_kind = 'interventions' then
    return query
    select i.row_uuid, i.at, to_jsonb(i) from tasker.report_interventions(p_from, p_until) i;
  elsif p_kind = 'refusals' then
    return query
    select j.rejected_transition_uuid, j.created_at, to_jsonb(j) from tasker.rejected_transitions j
     where j.created_at >= p_from and j.created_at < p_until;
  else
    perform tasker.raise_error('TK400', format('there is no population %L', p_kind), jsonb_build_object('kind', p_kind),
                               'Ask for results, tasks, interventions or refusals.');
  end if;
end
$$;
comment on function tasker.report_population(text, timestamptz, timestamptz) is
  'The whole of what an auditor draws samples from: results, tasks, interventions or refusals, from p_from until before p_until, here and in the archive.';
