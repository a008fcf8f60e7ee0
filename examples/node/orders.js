// The service of examples/python/orders.py in JavaScript: npm install && node orders.js, with PGHOST, PGDATABASE, ... set.
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";

const handlers = {
  reserve: ({ context }) => ({ shelf: context.items.length }),
  charge: ({ attempt, context }) => {
    if (attempt === 1) throw new Error("payment service is busy");
    return { receipt: `receipt for order ${context.order}` };
  },
  ship: ({ inputs }) => ({ label: `${inputs.charge.receipt}, from shelf ${inputs.reserve.shelf}` }),
};

const db = new pg.Client();
await db.connect();

async function createOrder(items) {
  const template = await readFile(new URL("../orders/ship-order.json", import.meta.url), "utf8");
  await db.query("select tasker.register_template($1)", [template]);
  await db.query("create table if not exists orders (id bigint generated always as identity, items text[])");
  // one transaction: there is never an order without its workflow, nor a workflow without its order
  await db.query("begin");
  const { rows: [order] } = await db.query("insert into orders (items) values ($1) returning id", [items]);
  const { rows: [task] } = await db.query(
    "select tasker.create_task('ship-order', $1, 'shop', p_idempotency_key => $2) as uuid",
    [{ order: Number(order.id), items }, `order-${order.id}`],
  );
  await db.query("commit");
  return task.uuid;
}

async function report(step) {
  const result = { step_uuid: step.workflow_step_uuid, claim_uuid: step.claim_uuid };
  try {
    return { ...result, result: await handlers[step.handler](step) };
  } catch (error) {
    return { ...result, success: false, category: "transient", error: { message: error.message } };
  }
}

async function work(task) {
  const { rows: [worker] } = await db.query("select tasker.register_worker('node', p_namespaces => '{shop}') as uuid");
  for (;;) {
    const { rows: steps } = await db.query("select * from tasker.claim_steps($1, '{shop}', 10)", [worker.uuid]);
    if (steps.length > 0) {
      const reports = await Promise.all(steps.map(report));
      await db.query("select * from tasker.complete_steps($1)", [JSON.stringify(reports)]);
    }
    await db.query("select tasker.orchestrate()");
    await db.query("select tasker.tick()");
    const { rows: [found] } = await db.query("select * from tasker.task_status($1)", [task]);
    if (found.is_terminal) return found.state;
    if (steps.length === 0) await pause(100); // a notification on tasker_work would say when to look again
  }
}

const task = await createOrder(["tea", "cup"]);
console.log(`task ${task} is ${await work(task)}`);
const { rows } = await db.query("select * from tasker.step_overview where task_uuid = $1 order by ordinal", [task]);
for (const step of rows) console.log(`  ${step.name} ${step.state} after ${step.attempts} attempts: ${JSON.stringify(step.result)}`);
await db.end();
