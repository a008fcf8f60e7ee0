create or replace function tasker.emit_event(
  p_event        text,
  p_key          text,
  p_payload      jsonb default '{}',
  p_namespace    text default 'default',
  p_requested_by text default null,
  p_keep         interval default '90 days',
  out outcome    text,
  out payload    jsonb,
  out emitted_by text,
  out emitted_at timestamptz,
  out message    text
) returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
  v_payload jsonb := coalesce(p_payload, 'null');
begin
  perform tasker.refuse_foreign_namespace(p_namespace);
  if coalesce(length(p_event) not between 1 and 200, true) or coalesce(length(p_key) not between 1 and 500, true)
     or p_keep not between interval '1 hour' and interval '100 years' then
    perform tasker.raise_error('TK400', 'an event has a name of 1 to 200 characters, a key of 1 to 500, and is kept for an hour up to 100 years',
                               jsonb_build_object('event', p_event, 'key', p_key, 'keep', p_keep),
                               'For example: emit_event(''approved'', ''order-7'', ''{"by": "anna"}''). p_keep null keeps it for good.');
  elsif not exists (select from tasker.task_namespaces n where n.namespace = p_namespace) then
    perform tasker.raise_error('TK404', format('there is no namespace %s', p_namespace), jsonb_build_object('namespace', p_namespace),
                               'Make it with ensure_namespace; it is the one of the tasks that wait.');
  end if;

  perform tasker.refuse_large('the payload', v_payload, p_namespace);
  -- A second caller waits here until the first has committed or rolled back. No task is locked, now or later: whoever holds
  -- one may tell an event, and a long transaction that told one holds up nobody's work.
  insert into tasker.events as e (namespace, event, key, payload, emitted_by, keep_until)
  values (p_namespace, p_event, p_key, v_payload, p_requested_by, tasker.clock() + p_keep)
      on conflict do nothing
  returning e.payload, e.emitted_by, e.emitted_at into payload, emitted_by, emitted_at;
  if found then
    outcome := 'emitted';
    message := format('event %s of %s was emitted', p_event, p_key);
    insert into tasker.audit_events (event, subject, namespace, requested_by, detail)
    values ('event_emitted', p_event || '/' || p_key, p_namespace, p_requested_by,
            jsonb_build_object('event', p_event, 'key', p_key, 'payload_hash', tasker.content_hash(v_payload::text, true)));
    perform tasker.look_for_events(p_namespace, jsonb_build_array(jsonb_build_array(p_event, p_key)));
    if exists (select from tasker.event_waits w where w.namespace = p_namespace and w.event = p_event and w.key = p_key and w.ended_at is null) then
      perform tasker.tell_engine(p_namespace);
    end if;
    return;
  end if;

  select e.payload, e.emitted_by, e.emitted_at into payload, emitted_by, emitted_at
    from tasker.events e where e.namespace = p_namespace and e.event = p_event and e.key = p_key;
  if not found then  -- forgotten a moment ago: it may be told again
    select o.* into outcome, payload, emitted_by, emitted_at, message
      from tasker.emit_event(p_event, p_key, p_payload, p_namespace, p_requested_by, p_keep) o;
    return;
  end if;
  outcome := case when payload = v_payload then 'repeated' else 'differs' end;
  message := format('event %s of %s was emitted already, at %s by %s, with %s', p_event, p_key, emitted_at, coalesce(emitted_by, 'somebody'),
                    case outcome when 'repeated' then 'the same payload' else 'another payload, which stays' end);
end
$$;
comment on function tasker.emit_event(text, text, jsonb, text, text, interval) is
  'Tells that something happened, in the caller''s transaction: steps that wait for the event go on with the payload when it has committed, and those that come to wait for it later do at once. The first to tell it wins; outcome repeated or differs says that it was there already, and payload what it is. tick forgets it after p_keep, unless a step waited for it whose task is still here.';
