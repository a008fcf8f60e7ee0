// graphile-worker: 500 jobs at once, local queue and batched completion as its performance page advises.
import pg from "pg";
import { makeWorkerUtils, run } from "graphile-worker";
import { begin, leads, shares, startsOf } from "./common.mjs";

const [dsn, shape, ...numbers] = process.argv.slice(2);
const [instances, size, steps] = numbers.map(Number);
const now = () => Date.now() / 1000;
let first = 0, last = 0, handled = 0;
const delays = [];
const pool = new pg.Pool({ connectionString: dsn, max: 20 });
const utils = await makeWorkerUtils({ pgPool: pool });
if (leads) {
  await utils.migrate();
  await pool.query("create table fans (id int primary key, missing int not null)");
}
const add = (payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: "noop", payload })));

async function noop({ instance, place, at }) {
  last = now();
  if (!handled++) first = last;
  if (shape === "latency") delays.push(last - at);
  else if (shape === "chain" && place + 1 < size) await add([{ instance, place: place + 1 }]);
  else if (shape === "fan" && place === 0) await add(Array(size).fill({ instance, place: 1 }));
  else if (shape === "fan" && place === 1) {
    const { rows } = await pool.query("update fans set missing = missing - 1 where id = $1 returning missing", [instance]);
    if (rows[0].missing === 0) await add([{ instance, place: 2 }]);
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const begun = now();
if (shape === "fan") await pool.query("insert into fans select n, $1 from generate_series(0, $2::int) n", [size, instances - 1]);
const starts = startsOf(shape, instances, size);
for (let at = 0; at < starts; at += 1000)
  await add(Array.from({ length: Math.min(1000, starts - at) }, (_, n) => ({ instance: at + n, place: 0 })));
const createSeconds = now() - begun;
await begin(createSeconds, () => ({ handled, first, last }));
await run({
  pgPool: pool, concurrency: 500, noHandleSignals: true, taskList: { noop },
  preset: { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
  logger: undefined,
});
if (shape === "latency") {
  await sleep(1000);
  while (handled < steps) {
    const before = handled;
    await add([{ at: now() }]);
    while (handled === before) await sleep(1);
    await sleep(150);
  }
}
while (shares || handled < steps) await sleep(50);
await sleep(500);
console.log(JSON.stringify({ create_seconds: createSeconds, seconds: last - first, handled, delays }));
process.exit(0);
