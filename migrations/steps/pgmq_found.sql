-- pgmq that is there is left alone; the extension is taken where the server has it and lets us; else comes our copy.
do $do$
declare
    v_source text := 'bundled';
begin
    if to_regclass('pgmq.meta') is not null then
        v_source := 'existing';
    elsif exists (select from pg_catalog.pg_available_extensions where name = 'pgmq') then
        begin
            execute 'create extension pgmq';
            v_source := 'extension';
        exception when insufficient_privilege then
            null;  -- this role may not: our copy needs no such right
        end;
    end if;
    if v_source <> 'bundled' and to_regrole('tasker_owner') is not null
        and not (
            has_schema_privilege('tasker_owner', 'pgmq', 'CREATE')
            and has_table_privilege('tasker_owner', 'pgmq.meta', 'INSERT')
        )
    then
        execute 'grant usage, create on schema pgmq to tasker_owner';
        execute 'grant all on all tables in schema pgmq to tasker_owner';
        execute 'grant all on all sequences in schema pgmq to tasker_owner';
        execute 'grant execute on all functions in schema pgmq to tasker_owner';
    end if;
    perform set_config('pgtasker.pgmq_source', v_source, true);
end
$do$;
