create or replace function tasker.ensure_namespace(p_namespace text, p_description text default null) returns text
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_queue text := tasker.queue_name(p_namespace);
  v_new   boolean;
begin
  if p_namespace is null or p_namespace !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$' then
    perform tasker.raise_error('TK400', format('%L is not a namespace name', p_namespace),
                               jsonb_build_object('namespace', p_namespace),
                               'Use 1 to 63 letters, digits, underscores, dots and hyphens, beginning with a letter or digit.');
  end if;
  perform tasker.refuse_foreign_namespace(p_namespace);
  insert into tasker.task_namespaces (namespace, queue_name, description)
  values (p_namespace, v_queue, p_description)
      on conflict do nothing  -- two at once meet at the namespace or at its queue's name
  returning true into v_new;
  if v_new or to_regclass('pgmq.' || quote_ident('q_' || v_queue)) is null then
    perform tasker.create_queue(v_queue);
  end if;
  if v_new then
    insert into tasker.work_signals (namespace, last_notified_at) values (p_namespace, '-infinity')
        on conflict (namespace) do nothing;
  elsif p_description is not null then
    update tasker.task_namespaces n set description = p_description
     where n.namespace = p_namespace and n.description is distinct from p_description;
  end if;
  return p_namespace;
end
$$;
comment on function tasker.ensure_namespace(text, text) is 'Makes the namespace and its queue, if they are not there yet.';
