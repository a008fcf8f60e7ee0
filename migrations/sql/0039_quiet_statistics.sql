-- A table's new statistics make every session plan anew whatever reads that table: 10 to 25 ms for all that a worker or a client runs, in the middle of
-- somebody's call. By default that comes after 50 changed rows and a tenth of the table, so every minute for tables that are mostly empty, and for
-- all of them in a system's first hours. Our statements ask for their plans by settings and indexes, not by statistics.
do $$
declare
  v_table regclass;
begin
  foreach v_table in array array(
    select c.oid from pg_class c
     where c.relkind = 'r'
       and (c.relnamespace = 'tasker'::regnamespace
            or c.oid in (select to_regclass('pgmq.' || quote_ident('q_' || q.queue_name))
                           from (select n.queue_name from tasker.task_namespaces n
                                 union select w.queue_name from tasker.work_queues w
                                 union select 'orchestration_step_results') q)))
  loop
    execute format('alter table %s set (autovacuum_analyze_threshold = 10000, autovacuum_vacuum_threshold = 1000)', v_table);
  end loop;
end
$$;
