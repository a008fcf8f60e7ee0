create or replace function tasker.record_setup() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_new jsonb := to_jsonb(new);
begin
  insert into tasker.audit_events (event, subject, namespace, detail)
  select tg_argv[0] || case tg_op when 'INSERT' then '_added' else '_changed' end,
         (select string_agg(v_new ->> c.name, '/' order by c.place) from unnest(tg_argv[1:]) with ordinality as c(name, place)),
         v_new ->> 'namespace',
         -- what is long has its hash beside it
         case tg_op when 'INSERT' then v_new - array['configuration', 'definition']
                    else jsonb_build_object('old', to_jsonb(old) - array['configuration', 'definition'],
                                            'new', v_new - array['configuration', 'definition']) end;
  return null;
end
$$;
comment on function tasker.record_setup() is
  'Leaves an event when something is set up or set up anew, by function or by hand. Arguments: what it is, the columns that name it.';

-- These tables hardly ever change, so a trigger for each row costs nothing, and WHEN keeps it away from counters.
create or replace trigger record_setup
  after insert or update on tasker.task_namespaces
  for each row execute function tasker.record_setup('namespace', 'namespace');
comment on trigger record_setup on tasker.task_namespaces is 'Who made a namespace or changed it?';

create or replace trigger record_setup
  after insert or update on tasker.named_tasks
  for each row execute function tasker.record_setup('template', 'namespace', 'name', 'version');
comment on trigger record_setup on tasker.named_tasks is 'Who registered a template?';

create or replace trigger record_setup
  after insert or update of definition on tasker.vocabularies
  for each row execute function tasker.record_setup('vocabulary', 'vocabulary');
comment on trigger record_setup on tasker.vocabularies is 'Who changed the rules?';

create or replace trigger record_setup
  after insert or update of lifecycle, failure_threshold, cooldown, success_threshold, max_error_repeats on tasker.circuit_breakers
  for each row execute function tasker.record_setup('circuit_breaker', 'tool');
comment on trigger record_setup on tasker.circuit_breakers is 'Who changed what a circuit breaker goes by?';

create or replace trigger record_setup
  after insert or update on tasker.tools
  for each row execute function tasker.record_setup('tool', 'tool');
comment on trigger record_setup on tasker.tools is 'Who set up a tool?';

create or replace trigger record_setup
  after insert or update of cron, time_zone, template, version, vocabulary, context, tags, priority, catch_up, overlap on tasker.schedules
  for each row execute function tasker.record_setup('schedule', 'namespace', 'schedule');
comment on trigger record_setup on tasker.schedules is 'Who made a schedule or changed it?';

create or replace trigger record_setup
  after insert or update on tasker.attached_lifecycles
  for each row execute function tasker.record_setup('attachment', 'table_name');
comment on trigger record_setup on tasker.attached_lifecycles is 'Who gave a table a lifecycle, or took it away?';

create or replace trigger record_setup
  after insert or update on tasker.retention_policies
  for each row execute function tasker.record_setup('retention_policy', 'policy');
comment on trigger record_setup on tasker.retention_policies is 'Who changed how long things are kept?';

create or replace trigger record_setup
  after insert or update on tasker.schema_info
  for each row when (new.key not in ('sql_tree_objects', 'access_rights', 'object_digests'))  -- the checksum tells
  execute function tasker.record_setup('schema', 'key');
comment on trigger record_setup on tasker.schema_info is 'Who installed what?';
