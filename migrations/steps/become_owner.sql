-- From here on as the owner of everything, and with every name qualified.
do $do$
begin
    if to_regrole('tasker_owner') is not null then
        set local role tasker_owner;
    end if;
end
$do$;
set local search_path = '';
set local client_min_messages = warning;
