create or replace function tasker.diagnose(
  p_after      interval default '10 minutes',
  p_seal_after interval default '1 day',
  out topic    text,
  out severity text,
  out finding  text,
  out subject  text,
  out expected text,
  out actual   text,
  out mend     text
) returns setof record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_found  jsonb := jsonb '[]';
  v_state  text;
  v_reason text;
begin
  perform tasker.refuse_bound_login('a diagnosis looks at all of them');
  -- what is to be found may keep the others from running: each alone
  foreach topic in array array['schema', 'server', 'work'] loop
    begin
      v_found := v_found || case topic
        when 'schema' then (select coalesce(jsonb_agg(d), '[]') from tasker.diagnose_schema() d)
        when 'server' then (select coalesce(jsonb_agg(d), '[]') from tasker.diagnose_server(p_after) d)
        else (select coalesce(jsonb_agg(d), '[]') from tasker.diagnose_work(p_after, p_seal_after) d)
      end;
    exception when others then
      get stacked diagnostics v_state = returned_sqlstate, v_reason = message_text;
      v_found := v_found || jsonb_build_object('topic', topic, 'severity', 'error', 'finding', 'look_that_failed', 'subject', topic,
                                               'expected', 'an answer', 'actual', format('%s [%s]', v_reason, v_state),
                                               'mend', 'pgtasker migrate --again');
    end;
  end loop;
  return query
    select d.topic, d.severity, d.finding, d.subject, d.expected, d.actual, d.mend
      from jsonb_to_recordset(v_found) as d(topic text, severity text, finding text, subject text, expected text, actual text, mend text)
     order by array_position(array['error', 'warning', 'notice'], d.severity), d.topic, d.finding, d.subject;
end
$$;
comment on function tasker.diagnose(interval, interval) is
  'Everything that can be found wrong from inside the database, the worst first: error (something does not work), warning (it will not, or holds something up), notice. pgtasker doctor shows it, with what only a client can see.';
