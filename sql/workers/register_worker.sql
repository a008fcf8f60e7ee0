create or replace function tasker.register_worker(
  p_name           text,
  p_capabilities   text[] default '{}',
  p_max_concurrent int default 1,
  p_vocabulary     text default 'tasker',
  p_namespaces     text[] default null
) returns uuid
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_uuid uuid;
begin
  if coalesce(p_name, '') = '' or p_max_concurrent is null or p_max_concurrent not between 1 and 100000 then
    perform tasker.raise_error('TK400', 'a worker needs a name and room for 1 to 100,000 steps',
                               jsonb_build_object('name', p_name, 'max_concurrent', p_max_concurrent));
  end if;
  if not exists (select from tasker.vocabularies v where v.vocabulary = p_vocabulary) then
    perform tasker.raise_error('TK404', format('there is no vocabulary %s', p_vocabulary), jsonb_build_object('vocabulary', p_vocabulary));
  end if;
  insert into tasker.workers (name, vocabulary, namespaces, capabilities, max_concurrent)
  values (p_name, p_vocabulary, p_namespaces, coalesce(p_capabilities, '{}'), p_max_concurrent)
  returning worker_uuid into v_uuid;
  return v_uuid;
end
$$;
comment on function tasker.register_worker(text, text[], int, text, text[]) is
  'Registers one start of a worker process and returns its key. A restarted process registers again: it never inherits old claims.';
