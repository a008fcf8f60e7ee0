create or replace function tasker.record_setup() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_row jsonb := to_jsonb(case tg_op when 'DELETE' then old else new end) - array['configuration', 'definition'];  -- what is long has its hash beside it
begin
  if tg_op = 'TRUNCATE' then
    insert into tasker.audit_events (event, subject) values (tg_argv[0] || '_truncated', tg_table_name);
    return null;
  end if;
  insert into tasker.audit_events (event, subject, namespace, detail)
  select tg_argv[0] || case tg_op when 'INSERT' then '_added' when 'UPDATE' then '_changed' else '_deleted' end,
         (select string_agg(v_row ->> c.name, '/' order by c.place) from unnest(tg_argv[1:]) with ordinality as c(name, place)),
         v_row ->> 'namespace',
         case tg_op when 'UPDATE' then jsonb_build_object('old', to_jsonb(old) - array['configuration', 'definition'], 'new', v_row) else v_row end;
  return null;
end
$$;
comment on function tasker.record_setup() is
  'Leaves an event when something is set up, set up anew or taken away, by function or by hand. Arguments: what it is, the columns that name it.';

-- These tables hardly ever change, so a trigger for each row costs nothing, and WHEN keeps it away from counters.
create or replace trigger record_setup
  after insert or update or delete on tasker.task_namespaces
  for each row execute function tasker.record_setup('namespace', 'namespace');
comment on trigger record_setup on tasker.task_namespaces is 'Who made a namespace or changed it?';

create or replace trigger record_setup
  after insert or update or delete on tasker.named_tasks
  for each row execute function tasker.record_setup('template', 'namespace', 'name', 'version');
comment on trigger record_setup on tasker.named_tasks is 'Who registered a template?';

create or replace trigger record_setup
  after insert or delete or update of definition on tasker.vocabularies
  for each row execute function tasker.record_setup('vocabulary', 'vocabulary');
comment on trigger record_setup on tasker.vocabularies is 'Who changed the rules?';

create or replace trigger record_setup
  after insert or delete or update of lifecycle, failure_threshold, cooldown, success_threshold, max_error_repeats on tasker.circuit_breakers
  for each row execute function tasker.record_setup('circuit_breaker', 'tool');
comment on trigger record_setup on tasker.circuit_breakers is 'Who changed what a circuit breaker goes by?';

create or replace trigger record_setup
  after insert or update or delete on tasker.limits
  for each row execute function tasker.record_setup('limit', 'scope', 'name', 'namespace');
comment on trigger record_setup on tasker.limits is 'Who set a limit, changed it or took it away?';

create or replace trigger record_setup
  after insert or update or delete on tasker.tools
  for each row execute function tasker.record_setup('tool', 'tool');
comment on trigger record_setup on tasker.tools is 'Who set up a tool?';

create or replace trigger record_setup
  after insert or delete or update of cron, time_zone, template, version, vocabulary, context, tags, priority, catch_up, overlap on tasker.schedules
  for each row execute function tasker.record_setup('schedule', 'namespace', 'schedule');
comment on trigger record_setup on tasker.schedules is 'Who made a schedule or changed it?';

create or replace trigger record_setup
  after insert or update or delete on tasker.attached_lifecycles
  for each row execute function tasker.record_setup('attachment', 'table_name');
comment on trigger record_setup on tasker.attached_lifecycles is 'Who gave a table a lifecycle, or took it away?';

create or replace trigger record_setup
  after insert or update or delete on tasker.retention_policies
  for each row execute function tasker.record_setup('retention_policy', 'policy');
comment on trigger record_setup on tasker.retention_policies is 'Who changed how long things are kept?';

create or replace trigger record_setup
  after insert or update on tasker.schema_info
  for each row when (new.key not in ('sql_tree_objects', 'access_rights', 'object_digests', 'object_definitions'))  -- the checksum tells
  execute function tasker.record_setup('schema', 'key');
comment on trigger record_setup on tasker.schema_info is 'Who installed what?';

create or replace trigger record_setup
  after insert or update or delete on tasker.legal_holds
  for each row execute function tasker.record_setup('legal_hold', 'task_uuid');
comment on trigger record_setup on tasker.legal_holds is 'Who put a hold on a task, or took it away past release_task?';

create or replace trigger record_setup
  after insert or update or delete on tasker.login_bindings
  for each row execute function tasker.record_setup('login_binding', 'login');
comment on trigger record_setup on tasker.login_bindings is 'Who bound a login, or took its binding away past unbind_login?';

create or replace trigger record_setup
  after insert or update or delete on tasker.test_clock
  for each row execute function tasker.record_setup('test_clock', 'singleton');
comment on trigger record_setup on tasker.test_clock is 'Who shifted the clock of leases and timers?';

do $make$
declare
  v_made record;
begin
  for v_made in
    select c.relname, convert_from(substring(t.tgargs from 1 for position('\x00'::bytea in t.tgargs) - 1), 'UTF8') as what
      from pg_catalog.pg_trigger t join pg_catalog.pg_class c on c.oid = t.tgrelid
     where t.tgname = 'record_setup' and c.relnamespace = 'tasker'::regnamespace and t.tgtype & 1 = 1
  loop
    execute format(
      $ddl$
        create or replace trigger record_truncate after truncate on tasker.%1$I
          for each statement execute function tasker.record_setup(%2$L);
        comment on trigger record_truncate on tasker.%1$I is 'Who emptied it?';
      $ddl$, v_made.relname, v_made.what);
  end loop;
end
$make$;
