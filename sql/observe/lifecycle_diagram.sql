create or replace function tasker.lifecycle_diagram(p_lifecycle text, p_format text default 'mermaid') returns text
language plpgsql
stable
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_lifecycle tasker.lifecycles;
  v_drawing   text;
begin
  select * into v_lifecycle from tasker.lifecycles l where l.lifecycle = p_lifecycle;
  if not found then
    perform tasker.raise_error('TK404', format('there is no lifecycle %s', coalesce(p_lifecycle, 'null')),
                               jsonb_build_object('lifecycle', p_lifecycle),
                               'Known: ' || (select string_agg(l.lifecycle, ', ' order by l.lifecycle) from tasker.lifecycles l) || '.');
  end if;

  if p_format = 'mermaid' then
    select string_agg(d.line, e'\n' order by d.part, d.ordinal)
      into v_drawing
      from (select 0 as part, 0 as ordinal, 'stateDiagram-v2' || e'\n    [*] --> ' || v_lifecycle.initial_state as line
            union all
            select 1, r.ordinal, format('    %s --> %s : %s%s%s', r.from_state, r.to_state, r.event,
                                        case when r.guard <> 'always' then ' [' || r.guard || ']' else '' end,
                                        case when r.is_legacy then ' (legacy)' when r.is_addition then ' (addition)' else '' end)
              from tasker.lifecycle_transitions r where r.lifecycle = p_lifecycle
            union all
            select 2, s.ordinal, format('    %s --> [*]', s.state)
              from tasker.lifecycle_states s where s.lifecycle = p_lifecycle and s.is_terminal) d;
  elsif p_format = 'dot' then
    select format(e'digraph "%s" {\n  rankdir=LR;\n', p_lifecycle)
           || (select string_agg(format('  "%s" [shape=%s];', s.state, case when s.is_terminal then 'doublecircle' else 'box' end), e'\n' order by s.ordinal)
                 from tasker.lifecycle_states s where s.lifecycle = p_lifecycle)
           || e'\n' || string_agg(format('  "%s" -> "%s" [label="%s%s"%s];', r.from_state, r.to_state, r.event,
                                         case when r.guard <> 'always' then '\n[' || r.guard || ']' else '' end,
                                         case when r.is_legacy or r.is_addition then ', style=dashed' else '' end), e'\n' order by r.ordinal)
           || e'\n}'
      into v_drawing
      from tasker.lifecycle_transitions r where r.lifecycle = p_lifecycle;
  elsif p_format = 'table' then
    select string_agg(format('%s | %s | %s | %s | %s%s', rpad(r.from_state, 36), rpad(r.event, 26), rpad(r.to_state, 36), rpad(r.fired_by, 9),
                             r.guard, case when r.is_legacy then ' (legacy)' when r.is_addition then ' (addition)' else '' end),
                      e'\n' order by r.ordinal)
      into v_drawing
      from tasker.lifecycle_transitions r where r.lifecycle = p_lifecycle;
    v_drawing := format('%s | %s | %s | %s | guard', rpad('from', 36), rpad('event', 26), rpad('to', 36), rpad('fired by', 9)) || e'\n' || v_drawing;
  else
    perform tasker.raise_error('TK400', format('can''t draw as %L', p_format), jsonb_build_object('format', p_format),
                               'Choose mermaid, dot or table.');
  end if;
  return v_drawing;
end
$$;
comment on function tasker.lifecycle_diagram(text, text) is 'Draws a lifecycle from its rows, as Mermaid, Graphviz or a table.';
