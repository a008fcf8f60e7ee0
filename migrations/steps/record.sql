-- Where pgmq came from. A later run finds it 'existing': what the first run wrote stays.
insert into tasker.schema_info as known (key, value)
values ('pgmq_source', current_setting('pgtasker.pgmq_source'))
on conflict (key) do update set value = excluded.value, updated_at = clock_timestamp()
where excluded.value not in ('existing', known.value);

insert into tasker.schema_info as known (key, value)
select
    'pgmq_version',
    case
        when current_setting('pgtasker.pgmq_source') = 'bundled' then '/*bundled_version*/'
        else coalesce((select extversion from pg_catalog.pg_extension where extname = 'pgmq'), 'unknown')
    end
on conflict (key) do update set value = excluded.value, updated_at = clock_timestamp()
where excluded.value not in ('unknown', known.value);

do $do$
begin
    -- A service that runs these migrations in its own Alembic chain keeps its version table elsewhere.
    if to_regclass('tasker.alembic_version') is not null then
        comment on table tasker.alembic_version is 'The newest table migration that ran here.';
        comment on column tasker.alembic_version.version_num is 'Its revision id.';
    end if;
end
$do$;
