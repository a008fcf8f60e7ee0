-- Waits for events stay after they ended; what waits now is counted for every scrape.
create index event_waits_open_idx on tasker.event_waits (event, namespace) where ended_at is null;
comment on index tasker.event_waits_open_idx is 'What waits for an event now?';
