-- What is counted is known by number, as in seals: a restored database counts its transactions anew, and numbers of transactions
-- that another server gave say nothing any more.
alter table tasker.metrics_cursor
  add column settled_below  bigint not null default 0,
  add column counted        int8multirange not null default '{}',
  add column next_change_id bigint not null default 0,
  add column folded_xid     xid8;
comment on table tasker.metrics_cursor is 'Which changes are counted.';
comment on column tasker.metrics_cursor.settled_below is 'No change below this one is still to come, and all that came are counted.';
comment on column tasker.metrics_cursor.counted is 'Those from there on that are counted.';
comment on column tasker.metrics_cursor.next_change_id is 'The change that came next when the mark was set: what was begun by then is decided when all transactions older than folded_xid are over.';
comment on column tasker.metrics_cursor.folded_xid is 'The transaction that set the mark; null: none is set.';
update tasker.metrics_cursor k
   set counted = coalesce((select range_agg(int8range(c.change_id, c.change_id, '[]')) from tasker.changes c
                            where (c.recorded_xid, c.change_id) <= (k.recorded_xid, k.change_id)), '{}');
alter table tasker.metrics_cursor drop column recorded_xid, drop column change_id;
