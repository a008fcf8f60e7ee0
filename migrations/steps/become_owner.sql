-- From here on as the owner of everything.
do $do$
begin
    if to_regrole('tasker_owner') is not null then
        set local role tasker_owner;
    end if;
end
$do$;
