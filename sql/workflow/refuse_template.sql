create or replace function tasker.refuse_template(p_template jsonb) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_problems jsonb := tasker.template_problems(p_template);
begin
  if jsonb_array_length(v_problems) > 0 then
    perform tasker.raise_error(
      'TK400', format('workflow %s has %s problem(s): %s', coalesce(p_template ->> 'name', '?'),
                      jsonb_array_length(v_problems), v_problems -> 0 ->> 'message'),
      jsonb_build_object('problems', v_problems), 'Mend every problem in DETAIL and send it again.');
  end if;
  perform tasker.refuse_foreign_namespace(w.namespace #>> '{}')
     from jsonb_path_query(p_template, 'lax $.steps[*].workflow.namespace') as w(namespace)
    where w.namespace <> 'null';
end
$$;
comment on function tasker.refuse_template(jsonb) is 'Raises TK400 with every problem of a workflow definition, TK403 where a step would run a workflow in a namespace that this login may not see, or does nothing.';
