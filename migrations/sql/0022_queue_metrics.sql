-- A function can't be replaced by one that answers with other columns; the tree makes both again.
drop view if exists tasker.metrics_queues;
drop function if exists tasker.metrics_queues();
