create or replace function tasker.attached_state(p_table regclass, p_key text) returns text
language sql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
  select t.to_state
    from tasker.attached_lifecycles a
    join tasker.attached_transitions t on t.attachment_uuid = a.attachment_uuid and t.entity_key = p_key and t.most_recent
   where a.attached_table = p_table and a.detached_at is null and tasker.may_see(a.namespace)
$$;
comment on function tasker.attached_state(regclass, text) is
  'The state of a row of an attached table; null if the table has no lifecycle or never had such a row. The state of a deleted row stays.';
