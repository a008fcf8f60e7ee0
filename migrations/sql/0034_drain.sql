-- Workers whose process is to stop.
alter table tasker.workers add column drain_requested_at timestamptz;
comment on column tasker.workers.drain_requested_at is 'When somebody asked its process to finish what it holds and stop (drain_worker); null: nobody did.';
