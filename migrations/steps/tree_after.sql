-- Drops what an earlier tree made and this one does not, and notes what this one made. What a migration or somebody
-- else made was never noted, so it is never dropped; nothing is dropped that anything else still leans on.
do $do$
declare
    v_made text[];
    v_vanished text[];
    v_left text[];
    v_identity text;
    v_reason text;
begin
    select coalesce(array_agg(identity order by identity), '{}')
    into v_made
    from (/*tree_objects*/) as objects
    where mark is distinct from (current_setting('pgtasker.tree_before')::jsonb ->> identity);

    select coalesce(array_agg(identity order by identity desc), '{}')  -- views and triggers before routines
    into v_vanished
    from (/*tree_objects*/) as objects
    where identity <> all (v_made)
        and exists (
            select from tasker.schema_info as i
            where i.key = 'sql_tree_objects' and i.value::jsonb ? identity
        );

    -- In rounds, since they may lean on each other.
    while cardinality(v_vanished) > 0 loop
        v_left := '{}';
        foreach v_identity in array v_vanished loop
            begin
                execute 'drop ' || v_identity;
            exception when dependent_objects_still_exist then
                get stacked diagnostics v_reason = pg_exception_detail;
                v_left := v_left || v_identity;
            end;
        end loop;
        if cardinality(v_left) = cardinality(v_vanished) then
            raise exception 'this version has no % any more, but something still needs it', array_to_string(v_left, ', ')
                using errcode = 'dependent_objects_still_exist', detail = v_reason,
                hint = 'Drop or change what needs it, then run the migration again.';
        end if;
        v_vanished := v_left;
    end loop;

    insert into tasker.schema_info as known (key, value)
    values
        ('sql_tree_objects', to_jsonb(v_made)::text),
        ('sql_tree_checksum', '/*checksum*/'),
        ('schema_version', '/*schema_version*/')
    on conflict (key) do update set value = excluded.value, updated_at = clock_timestamp()
    where known.value <> excluded.value;

    -- What access_warnings compares with, now that only this tree is there.
    with found as materialized (select * from tasker.object_digests())
    insert into tasker.schema_info as known (key, value)
    select
        'access_rights',
        jsonb_agg(
            jsonb_build_object('role', r.role, 'kind', r.kind, 'object', r.object, 'privilege', r.privilege, 'columns', r.columns)
            order by r.role, r.kind, r.object, r.privilege, r.columns
        )::text
    from tasker.access_rights as r
    -- what others were given is nothing that this tree gave
    where r.role in ('public', 'tasker_client', 'tasker_worker', 'tasker_operator', 'tasker_auditor', 'tasker_monitor')
    union all
    select 'object_digests', jsonb_object_agg(d.object, d.digest order by d.object)::text
    from found as d
    where (nullif(current_setting('pgtasker.strangers', true), '')::jsonb ->> d.object) is distinct from d.digest
    union all
    select 'object_definitions', jsonb_object_agg(d.object, d.definition order by d.object)::text
    from found as d
    where d.definition is not null
    on conflict (key) do update set value = excluded.value, updated_at = clock_timestamp()
    where known.value <> excluded.value;
end
$do$;
