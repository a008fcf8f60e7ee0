create or replace function tasker.purge_digest(p_purge_uuid uuid) returns text
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  select encode(sha256(convert_to(coalesce(string_agg(
           json_build_array(p.task_uuid, p.namespace, p.name, (extract(epoch from p.completed_at) * 1000000)::bigint, p.policy, p.row_uuids)::text,
           '' order by p.task_uuid), ''), 'UTF8')), 'hex')
    from tasker.purged_tasks p
   where p.purge_uuid = p_purge_uuid
$$;
comment on function tasker.purge_digest(uuid) is 'A digest over what purged_tasks says of one purge; the event of the purge keeps it, and is sealed.';
