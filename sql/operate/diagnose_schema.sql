create or replace function tasker.diagnose_schema(
  out topic    text,
  out severity text,
  out finding  text,
  out subject  text,
  out expected text,
  out actual   text,
  out mend     text
) returns setof record
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
  with noted as (
    select n.object, n.definition
      from tasker.schema_info i cross join lateral jsonb_each_text(i.value::jsonb) as n(object, definition)
     where i.key = 'object_definitions'
  ), there as materialized (
    select d.object, d.definition from tasker.object_digests() d
  ), objects as (
    select w.finding, w.detail as object, n.definition as expected, t.definition as actual,
           split_part(w.detail, ' ', 1) as kind,
           case when w.detail like '% on %' then split_part(w.detail, ' ', 2) end as name,  -- of a trigger, policy or constraint
           regexp_replace(w.detail, '^.* on ', '') as on_table
      from tasker.access_warnings w
      left join noted n on n.object = w.detail
      left join there t on t.object = w.detail
     where w.finding in ('object_that_was_changed', 'object_that_is_missing', 'object_that_is_not_ours')
  ), others as (
    select w.finding, w.subject, count(*) as findings, string_agg(w.detail, '; ' order by w.detail) as detail,
           -- 'select on view tasker.v (a, b)': columns stand with the privilege, and REVOKE calls a view a table
           replace(regexp_replace(regexp_replace(min(w.detail), '^(\S+) on (table|view) (\S+) (\(.*\))$', '\1 \4 on table \3'), '^', 'revoke '),
                   ' on view ', ' on table ') || ' from ' as revoked
      from tasker.access_warnings w
     where w.finding not in ('object_that_was_changed', 'object_that_is_missing', 'object_that_is_not_ours')
       -- of a right that is missing, everything is given again at once; what else there is, is mended one by one
     group by w.finding, w.subject, case w.finding when 'right_that_is_missing' then '' else w.detail end
  )
  select 'schema', case o.finding when 'object_that_is_not_ours' then 'warning' else 'error' end, o.finding, o.object,
         case when o.finding = 'object_that_is_not_ours' then 'nothing of that name'
              else coalesce(o.expected, 'as the installed version has it') end,
         case when o.finding = 'object_that_is_missing' then 'missing'
              else coalesce(o.actual, case o.finding when 'object_that_was_changed' then 'another definition' else 'somebody made it' end) end,
         case
           when o.finding = 'object_that_is_not_ours' and o.kind = 'constraint' then format('alter table %s drop constraint %s', o.on_table, o.name)
           when o.finding = 'object_that_is_not_ours' and o.kind = 'column'
             then regexp_replace(o.object, '^column (.*)\.(.*)$', 'alter table \1 drop column \2')
           when o.finding = 'object_that_is_not_ours' then 'drop ' || o.object
           when o.kind in ('function', 'view', 'trigger', 'policy') then 'pgtasker migrate --again'
           when o.finding = 'object_that_is_missing' and o.kind = 'index' then o.expected
           when o.kind = 'index' then format('drop %s; %s', o.object, o.expected)
           when o.finding = 'object_that_is_missing' and o.kind = 'constraint' then format('alter table %s add constraint %s %s', o.on_table, o.name, o.expected)
           when o.kind = 'constraint'
             then format('alter table %1$s drop constraint %2$s; alter table %1$s add constraint %2$s %3$s', o.on_table, o.name, o.expected)
           when o.kind = 'table' and o.expected like 'logged, %' and o.actual like 'not logged, %' then format('alter %s set logged', o.object)
           when o.kind = 'table' and o.expected like '%on' and o.actual like '%off' then format('alter %s enable row level security', o.object)
           else 'restore it from a backup: what stood in it is gone'
         end
    from objects o
  union all
  select 'schema',
         case when o.finding in ('trigger_that_is_switched_off', 'right_that_is_missing', 'row_security_that_is_switched_off', 'object_of_somebody_else')
              then 'error' else 'warning' end,
         o.finding, o.subject,
         case o.finding when 'right_that_is_missing' then o.detail when 'trigger_that_is_switched_off' then o.detail || ' is enabled'
                        when 'row_security_that_is_switched_off' then 'enabled' end,
         case o.finding when 'right_that_is_missing' then format('%s missing', o.findings)
                        when 'trigger_that_is_switched_off' then o.detail || ' does not fire'
                        else o.detail end,
         case o.finding
           when 'right_that_no_file_gives' then o.revoked || quote_ident(o.subject)
           when 'right_that_may_be_handed_on' then replace(o.revoked, 'revoke ', 'revoke grant option for ') || quote_ident(o.subject)
           when 'role_with_more_than_a_role_has'
             then format('alter role %I nologin nosuperuser nocreaterole nocreatedb noreplication nobypassrls', o.subject)
           when 'member_that_nothing_holds' then format('revoke %s from %I', split_part(o.detail, ',', 1), o.subject)
           when 'login_that_reads_or_writes_everything' then format('revoke %s from %I', o.detail, o.subject)
           when 'login_that_may_switch_triggers_off' then format('revoke set on parameter session_replication_role from %I', o.subject)
           when 'member_with_conflicting_duties' then format('revoke tasker_auditor from %I', o.subject)
           when 'binding_that_does_not_hold' then format('alter role %I nosuperuser nobypassrls; revoke tasker_owner from %1$I', o.subject)
           when 'binding_of_nobody' then format('select tasker.unbind_login(%L, p_reason => ''...'', p_requested_by => ''...'')', o.subject)
           when 'object_of_somebody_else' then format('alter %s owner to tasker_owner', replace(o.detail, 'relation ', 'table '))
           when 'rule_that_is_not_ours' then format('drop rule %I on %s', o.detail, o.subject)
           else 'pgtasker migrate --again'
         end
    from others o
$$;
comment on function tasker.diagnose_schema() is
  'What access_warnings finds about functions, views, triggers, tables, indexes, policies and rights, with what should be, what is, and what mends it.';
