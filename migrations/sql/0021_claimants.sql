-- Who takes steps at the moment when they become ready, without their standing in a queue.

create type tasker.claimant as (
  worker_uuid  uuid,
  claim_uuid   uuid,
  namespace    text,
  capabilities text[],
  room         int,
  claimed_at   timestamptz,
  lease        interval
);
comment on type tasker.claimant is 'A worker with room for steps of one namespace, and the claim under which it would hold them.';
