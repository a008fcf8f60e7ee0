// pg-boss: batches of 500, polled twice a second, its shortest interval.
import PgBoss from "pg-boss";
import pg from "pg";
import { begin, leads, shares, startsOf } from "./common.mjs";

const [dsn, shape, ...numbers] = process.argv.slice(2);
const [instances, size, steps] = numbers.map(Number);
const now = () => Date.now() / 1000;
let first = 0, last = 0, handled = 0;
const delays = [];
const pool = new pg.Pool({ connectionString: dsn, max: 10 });
const boss = new PgBoss({ connectionString: dsn, max: 10 });
await boss.start();
if (leads) {
  await boss.createQueue("noop");
  await pool.query("create table fans (id int primary key, missing int not null)");
}
const add = (payloads) => boss.insert(payloads.map((data) => ({ name: "noop", data })));

async function noop(jobs) {
  for (const { data: { instance, place, at } } of jobs) {
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
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const begun = now();
if (shape === "fan") await pool.query("insert into fans select n, $1 from generate_series(0, $2::int) n", [size, instances - 1]);
const starts = startsOf(shape, instances, size);
for (let at = 0; at < starts; at += 1000)
  await add(Array.from({ length: Math.min(1000, starts - at) }, (_, n) => ({ instance: at + n, place: 0 })));
const createSeconds = now() - begun;
await begin(createSeconds, () => ({ handled, first, last }));
for (let n = 0; n < 8; n++) await boss.work("noop", { batchSize: 500, pollingIntervalSeconds: 0.5 }, noop);
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
console.log(JSON.stringify({ create_seconds: createSeconds, seconds: last - first, handled, delays }));
process.exit(0);
