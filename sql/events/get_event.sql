create or replace function tasker.get_event(
  p_event     text,
  p_key       text,
  p_namespace text default 'default'
) returns setof tasker.events
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
begin
  perform tasker.refuse_foreign_namespace(p_namespace);
  return query
  select e.* from tasker.events e where e.namespace = p_namespace and e.event = p_event and e.key = p_key;
end
$$;
comment on function tasker.get_event(text, text, text) is 'The event, if it was emitted and not forgotten since: one row or none.';
