create or replace function tasker.configure_tool(
  p_tool       text,
  p_timeout    interval,
  p_request_id text default null
) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_answer text := tasker.begin_request(p_request_id, 'configure_tool', jsonb_build_array(p_tool, p_timeout));
begin
  perform tasker.refuse_bound_login('what holds for a tool is shared by all');
  if v_answer is not null then
    return;
  end if;
  if coalesce(p_tool, '') = '' or p_timeout <= interval '0' or p_timeout > interval '366 days' then
    perform tasker.raise_error('TK400', 'a tool needs a name and, if any, a timeout longer than nothing and not longer than 366 days',
                               jsonb_build_object('tool', p_tool, 'timeout', p_timeout), 'A timeout of null takes the default of 300 s.');
  end if;
  insert into tasker.tools (tool, timeout) values (p_tool, p_timeout)
      on conflict (tool) do update set timeout = excluded.timeout;
  perform tasker.end_request(p_request_id, '');
end
$$;
comment on function tasker.configure_tool(text, interval, text) is
  'Says how long one attempt of a step that uses this tool may take where the step does not say it itself (seed 002: per-tool override). Holds for tasks created from now on.';
