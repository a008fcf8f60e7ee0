-- Logins for the services of docker-compose.yml, members of the group roles that the migration made. Runs again at every
-- start: a login that is there gets the password of the environment. psql 14 or newer, as a role that may create roles.
\getenv worker_password PGTASKER_WORKER_PASSWORD
\getenv client_password PGTASKER_CLIENT_PASSWORD
\getenv operator_password PGTASKER_OPERATOR_PASSWORD
\getenv tenant_password PGTASKER_TENANT_PASSWORD

select format('create role %I login', wanted.login)
  from (values ('pgtasker_worker'), ('pgtasker_client'), ('pgtasker_operator'), ('pgtasker_tenant')) as wanted (login)
 where not exists (select from pg_catalog.pg_roles r where r.rolname = wanted.login)
\gexec

set local password_encryption = 'scram-sha-256';
alter role pgtasker_worker login password :'worker_password';
alter role pgtasker_client login password :'client_password';
alter role pgtasker_operator login password :'operator_password';
alter role pgtasker_tenant login password :'tenant_password';

set local client_min_messages = warning; -- a membership that is there is no news
grant tasker_worker to pgtasker_worker;
grant tasker_client to pgtasker_client;
grant tasker_operator to pgtasker_operator;
grant tasker_client to pgtasker_tenant;

-- A tenant: a client that is held to namespace demo. Bound once; what an owner binds it to later stays.
do $$
begin
  if not exists (select from tasker.login_bindings b where b.login = 'pgtasker_tenant') then
    perform tasker.bind_login('pgtasker_tenant', '{demo}', 'tenant of namespace demo', 'deploy/logins.sql');
  end if;
end
$$;
