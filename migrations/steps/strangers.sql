-- What is there and no migration made: it must not become ours by being there when the next one takes note.
do $do$
declare
    v_strangers text;
begin
    if to_regclass('tasker.schema_info') is not null and to_regprocedure('tasker.object_digests()') is not null then
        execute $query$
            with noted as materialized (  -- read once: a large document
                select i.value::jsonb as digests from tasker.schema_info as i where i.key = 'object_digests'
            )
            select jsonb_object_agg(d.object, d.digest)::text
            from noted as n
            cross join tasker.object_digests() as d
            where not n.digests ? d.object
                and (n.digests ->> 'server')::int = current_setting('server_version_num')::int / 10000
        $query$ into v_strangers;
    end if;
    perform set_config('pgtasker.strangers', coalesce(v_strangers, '{}'), true);
end
$do$;
