-- Group roles without login; real users and services are made members. They belong to the whole server, so they are made
-- only where they are missing, and by somebody who may.
do $make$
declare
  v_role text;
begin
  foreach v_role in array array['tasker_owner', 'tasker_client', 'tasker_worker', 'tasker_operator', 'tasker_auditor', 'tasker_monitor'] loop
    if not exists (select from pg_catalog.pg_roles r where r.rolname = v_role) then
      begin
        execute format('create role %I nologin', v_role);
      exception when duplicate_object or unique_violation then
        null;  -- another database of this server was made at the same moment
      end;
    end if;
  end loop;
end
$make$;
