create or replace function tasker.begin_request(p_request_id text, p_endpoint text, p_arguments jsonb) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
  v_hash  text;
  v_known tasker.idempotency_keys;
begin
  if p_request_id is null then
    return null;
  end if;
  if length(p_request_id) not between 1 and 255 then
    perform tasker.raise_error('TK400', 'a request id has 1 to 255 characters', jsonb_build_object('length', length(p_request_id)));
  end if;
  v_hash := tasker.content_hash(p_arguments::text, true);
  -- A second call with the same id waits here until the first has committed or rolled back.
  insert into tasker.idempotency_keys (request_id, endpoint, request_hash, response_status, response_body, expires_at)
  values (p_request_id, p_endpoint, v_hash, 102, '', tasker.clock() + interval '1 hour')
      on conflict (request_id, login) do nothing;
  if found then
    return null;
  end if;
  select * into v_known from tasker.idempotency_keys k where k.request_id = p_request_id and k.login = session_user for update;
  if not found or v_known.expires_at <= tasker.clock() then
    -- too old, or purged a moment ago: the id is free again
    delete from tasker.idempotency_keys k
     where k.request_id = p_request_id and k.login = session_user and k.expires_at <= tasker.clock();
    return tasker.begin_request(p_request_id, p_endpoint, p_arguments);
  elsif v_known.endpoint <> p_endpoint or v_known.request_hash <> v_hash then
    perform tasker.raise_error('TK423', format('request id %s was used before with another request', p_request_id),
                               jsonb_build_object('request_id', p_request_id, 'endpoint', v_known.endpoint, 'first_seen', v_known.created_at),
                               'Use a new id for a new request, or send the same request again.');
  end if;
  update tasker.idempotency_keys k set hits = k.hits + 1 where k.request_id = p_request_id and k.login = session_user;
  return v_known.response_body;
end
$$;
comment on function tasker.begin_request(text, text, jsonb) is
  'The stored answer to this request id of this login, or null when the caller is to do the work (and then call end_request). Another request under the same id: TK423. If the work fails, nothing stays behind. Logins do not share ids: nobody reads or takes those of another.';
