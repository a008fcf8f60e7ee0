create or replace function tasker.refuse_large_arguments(p_template jsonb, p_namespace text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if tasker.is_large(p_template) then
    perform tasker.refuse_large(format('steps[%s].arguments', s.position - 1), s.step -> 'arguments', p_namespace)
       from jsonb_array_elements(p_template -> 'steps') with ordinality as s(step, position)
      order by s.position;
  end if;
end
$$;
comment on function tasker.refuse_large_arguments(jsonb, text) is 'TK413 for the arguments of a step that are over the limit of their namespace. Of a valid definition.';
