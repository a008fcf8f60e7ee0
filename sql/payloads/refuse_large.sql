create or replace function tasker.refuse_large(p_what text, p_document jsonb, p_namespace text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_size  int;
  v_limit int;
begin
  if tasker.is_large(p_document) then
    v_size := octet_length(p_document::text);
    v_limit := (select n.payload_limit from tasker.task_namespaces n where n.namespace = p_namespace);
    if v_size > v_limit then
      perform tasker.raise_error('TK413', tasker.too_large(p_what, v_size, p_namespace, v_limit),
                                 jsonb_build_object('what', p_what, 'size', v_size, 'limit', v_limit, 'namespace', p_namespace));
    end if;
  end if;
end
$$;
comment on function tasker.refuse_large(text, jsonb, text) is 'TK413 for a document over the limit of its namespace (payload_limit).';
