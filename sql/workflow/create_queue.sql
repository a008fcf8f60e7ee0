create or replace function tasker.create_queue(p_queue_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
begin
  perform pgmq.create(p_queue_name);
  -- as for the tables of schema tasker: statistics of a table that is mostly empty would be renewed every minute
  execute format('alter table pgmq.%I set (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 1000)', 'q_' || p_queue_name);
end
$$;
comment on function tasker.create_queue(text) is 'Makes a pgmq queue that autovacuum looks at when it is worth it, and not after every fifty messages.';
