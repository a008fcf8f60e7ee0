create or replace function tasker.end_request(p_request_id text, p_answer text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  if p_request_id is not null then
    update tasker.idempotency_keys k set response_status = 200, response_body = p_answer
     where k.request_id = p_request_id and k.login = session_user;
  end if;
  return p_answer;
end
$$;
comment on function tasker.end_request(text, text) is 'Keeps the answer to a request id in the transaction that did the work, and returns it.';
