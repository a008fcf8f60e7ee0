// Two workers that share the work are two processes of one script, as in common.py: the first installs and creates.
const worker = process.env.BENCH_WORKER ?? "";
export const shares = worker !== "";
export const leads = worker !== "second";

// How many jobs are made before the work; chains and fans make the rest as they go.
export const startsOf = (shape, instances, size) =>
  shape === "latency" || !leads ? 0 : instances * (shape === "wide" ? size : 1);

// Before the work: each says that it is ready, waits for the other, and tells from then on how far it is, until it is ended.
export async function begin(createSeconds, progress) {
  if (!shares) return;
  console.log(JSON.stringify({ create_seconds: createSeconds }));
  await new Promise((resolve) => process.stdin.once("data", resolve));
  setInterval(() => console.log(JSON.stringify(progress())), 20);
}
