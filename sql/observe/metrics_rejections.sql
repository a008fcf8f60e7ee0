create or replace function tasker.metrics_rejections(
  p_since     timestamptz,
  out code        text,
  out name        text,
  out entity_kind text,
  out rejections  bigint
) returns setof record
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select r.code, e.name, r.entity_kind, count(*)
    from tasker.rejected_transitions r
    left join tasker.error_catalogue e on e.code = r.code
   where r.created_at >= p_since
     and ((select tasker.bound_namespaces()) is null or r.namespace = any ((select tasker.bound_namespaces())::text[]))
   group by r.code, e.name, r.entity_kind
   order by count(*) desc, r.code, r.entity_kind
$$;
comment on function tasker.metrics_rejections(timestamptz) is
  'Refused transitions since then by code (seed 003: failed transitions). Counted are refusals of batch calls, which leave a row; a single call that is refused raises and leaves none.';

create or replace view tasker.metrics_rejections as
select m.code, m.name, m.entity_kind, m.rejections from tasker.metrics_rejections('-infinity') m;
comment on view tasker.metrics_rejections is 'Refused transitions by code (seed 003: failed transitions).';
