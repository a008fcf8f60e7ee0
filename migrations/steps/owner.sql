-- Everything belongs to tasker_owner (made by sql/access/roles.sql), whoever runs the migration.
do $do$
begin
    if to_regrole('tasker_owner') is null then
        execute 'create schema if not exists tasker';
        return;
    end if;
    if not pg_has_role(
        current_user, 'tasker_owner',
        case when current_setting('server_version_num')::int >= 160000 then 'SET' else 'MEMBER' end
    ) then
        execute 'grant tasker_owner to current_user';
    end if;
    if not has_database_privilege('tasker_owner', current_database(), 'CREATE') then
        execute format('grant create on database %I to tasker_owner', current_database());
    end if;
    if to_regnamespace('tasker') is null then
        execute 'create schema tasker authorization tasker_owner';
    end if;
end
$do$;
