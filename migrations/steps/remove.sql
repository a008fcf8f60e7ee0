-- Removes schema tasker and the queues that tasker_owner made; pgmq too when we brought it and no other queue is left.
do $do$
declare
    v_source text := (select value from tasker.schema_info where key = 'pgmq_source');
    v_queue text;
begin
    if to_regclass('pgmq.meta') is not null then
        for v_queue in
            select m.queue_name
            from pgmq.meta as m
            inner join pg_catalog.pg_class as c on c.oid = to_regclass(format('pgmq.%I', 'q_' || m.queue_name))
            where c.relowner = to_regrole('tasker_owner')
        loop
            perform pgmq.drop_queue(v_queue);
        end loop;
        if v_source = 'bundled' and not exists (select from pgmq.meta) then
            drop schema pgmq cascade;
        end if;
    end if;
    drop schema tasker cascade;
end
$do$;
