-- It tells definitions too, which changes what it returns: the tree makes both again.
drop view if exists tasker.access_warnings;
drop function if exists tasker.object_digests();
