create or replace function tasker.attach_lifecycle(
  p_table     regclass,
  p_key       text,
  p_lifecycle text,
  p_namespace text default 'default'
) returns uuid
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_known    tasker.attached_lifecycles;
  v_problems jsonb;
  v_keys     text[];
begin
  select * into v_known from tasker.attached_lifecycles a where a.attached_table = p_table and a.detached_at is null;
  if found and (v_known.key_column, v_known.lifecycle, v_known.namespace) = (p_key, p_lifecycle, p_namespace) then
    return v_known.attachment_uuid;
  elsif found then
    perform tasker.raise_error('TK409', format('%s has the lifecycle %s already', p_table, v_known.lifecycle), to_jsonb(v_known),
                               'A table has one lifecycle. Detach it first; its log stays.');
  end if;

  select jsonb_agg(jsonb_build_object('path', p.path, 'message', p.message))
    into v_problems
    from (select 'table' as path, 'must be an ordinary or partitioned table that is not temporary' as message
           where not exists (select from pg_class c where c.oid = p_table and c.relkind in ('r', 'p') and c.relpersistence <> 't')
           union all
          select 'key', format('%L must be a column that is not null and unique by itself', p_key)
           where not exists (select from pg_attribute a
                               join pg_index i on i.indrelid = a.attrelid and i.indisunique and i.indisvalid and i.indpred is null
                                              and i.indnkeyatts = 1 and i.indkey[0] = a.attnum
                              where a.attrelid = p_table and a.attname = p_key and a.attnotnull and not a.attisdropped)
           union all
          select 'lifecycle', format('there is no lifecycle %L of kind custom', p_lifecycle)
           where not exists (select from tasker.lifecycles l where l.lifecycle = p_lifecycle and l.kind = 'custom')) p;
  if v_problems is not null then
    perform tasker.raise_error('TK400', format('%s can''t be attached: %s', p_table, v_problems -> 0 ->> 'message'),
                               jsonb_build_object('problems', v_problems), 'Mend every problem in DETAIL and attach it again.');
  end if;

  -- All of this as the caller, so only who may put a trigger on the table and read it can attach it. The triggers come
  -- first: their lock keeps writers out until the rows that are there have their logs.
  execute format('create trigger tasker_start_attached after insert on %s referencing new table as appended
                  for each statement execute function tasker.start_attached()', p_table);
  execute format('create trigger tasker_keep_attached_key before update on %1$s for each row
                  when (old.%2$I is distinct from new.%2$I) execute function tasker.keep_attached_key()', p_table, p_key);
  execute format('select array_agg(t.%I::text order by t.%I) from %s t', p_key, p_key, p_table) into v_keys;
  return tasker.record_attachment(p_table, p_key, p_lifecycle, p_namespace, v_keys);
end
$$;
comment on function tasker.attach_lifecycle(regclass, text, text, text) is
  'Gives the rows of a user''s own table a lifecycle of kind custom. Every row, now and later, starts in its initial state; fire moves it. For operators who own the table, or may read it and put triggers on it.';
