#!/usr/bin/env bash
# The service of examples/python/orders.py with psql alone: an order and its workflow are stored in one transaction.
set -euo pipefail
cd "$(dirname "$0")"
psql -Xq -v ON_ERROR_STOP=1 -o /dev/null -v template="$(<../orders/ship-order.json)" <<'SQL'
select tasker.register_template(:'template');
create table if not exists orders (id bigint generated always as identity, items text[]);
begin;
insert into orders (items) values ('{tea,cup}') returning id as order, items \gset
select tasker.create_task('ship-order', jsonb_build_object('order', :order, 'items', :'items'::text[]), 'shop',
                          p_idempotency_key => 'order-' || :order);
commit;
SQL
./worker.sh
psql -X -c "select name, state, attempts, result from tasker.step_overview where namespace = 'shop' order by task_uuid, ordinal"
