#!/usr/bin/env bash
# A worker with psql alone: examples/psql/worker.sh, with PGHOST, PGDATABASE, ... set. It ends when nothing is left to do.
set -euo pipefail
sql() { psql -XAtq -F $'\x1f' -v ON_ERROR_STOP=1 "$@"; }

reserve() { echo "{\"shelf\": $items}"; }
charge() {
  ((attempt > 1)) || { echo "payment service is busy" >&2; return 1; }
  echo "{\"receipt\": \"receipt for order $order\"}"
}
ship() { echo "{\"label\": \"$receipt, from shelf $shelf\"}"; }

worker=$(sql -c "select tasker.register_worker('bash', p_namespaces => '{shop}')")
until [[ $(sql -c "select count(*) from tasker.task_overview where namespace = 'shop' and not is_terminal") == 0 ]]; do
  claimed=$(sql -c "select workflow_step_uuid, claim_uuid, handler, attempt, context ->> 'order', jsonb_array_length(context -> 'items'),
                           inputs #>> '{charge,receipt}', inputs #>> '{reserve,shelf}' from tasker.claim_steps('$worker', '{shop}')")
  if [[ -n $claimed ]]; then
    IFS=$'\x1f' read -r step claim handler attempt order items receipt shelf <<<"$claimed"
    if outcome=$("$handler" 2>&1); then
      sql -v s="$step" -v c="$claim" -v r="$outcome" <<<"select tasker.complete_step(:'s', :'c', :'r')" >/dev/null
    else
      sql -v s="$step" -v c="$claim" -v m="$outcome" \
        <<<"select tasker.fail_step(:'s', :'c', jsonb_build_object('message', :'m'), 'transient')" >/dev/null
    fi
  fi
  sql -c "select tasker.orchestrate()" -c "select tasker.tick()" >/dev/null
  [[ -n $claimed ]] || sleep 0.1 # nothing to do now; a notification on tasker_work would say when to look again
done
