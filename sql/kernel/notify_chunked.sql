create or replace function tasker.notify_chunked(p_channel text, p_events jsonb[]) returns void
language sql
set search_path = pg_catalog, pg_temp
as $$
  -- 12 events of at most 600 bytes (names have up to 63) stay below the 8,000 bytes that NOTIFY takes
  select pg_notify(p_channel, chunk.payload)
    from (select jsonb_agg(e.event order by e.position)::text as payload
            from unnest(p_events) with ordinality as e(event, position)
           group by (e.position - 1) / 12) chunk
$$;
comment on function tasker.notify_chunked(text, jsonb[]) is
  'Sends events as JSON arrays of up to 12: notifications are per statement, never per row, and always under the size limit.';
