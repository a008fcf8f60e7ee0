-- A row of the change feed names the log rows of one statement, 16 bytes for each, and is read soon and whole. Compressing it cost more time than
-- its few bytes are worth; only rows that don't fit into a page are compressed or moved out now.
alter table tasker.changes set (toast_tuple_target = 8160);

-- Its caller has read which tasks the steps belong to.
drop function if exists tasker.lock_for_report(uuid[], uuid[]);
