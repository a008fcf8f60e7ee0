-- What is there and no migration made: it must not become ours by being there when the next one takes note.
do $do$
declare
    v_strangers text;
begin
    if to_regclass('tasker.schema_info') is not null and to_regprocedure('tasker.object_digests()') is not null then
        execute $query$
            select jsonb_object_agg(d.object, d.digest)::text
            from tasker.object_digests() as d
            inner join tasker.schema_info as i on i.key = 'object_digests'
            where not i.value::jsonb ? d.object
                and (i.value::jsonb ->> 'server')::int = current_setting('server_version_num')::int / 10000
        $query$ into v_strangers;
    end if;
    perform set_config('pgtasker.strangers', coalesce(v_strangers, '{}'), true);
end
$do$;
