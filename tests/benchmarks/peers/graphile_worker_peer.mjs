// graphile-worker: 24 concurrent jobs, local queue of 500, batched completion at once.
import { createRequire } from "node:module";
import { enqueue, noteStart, ORDER } from "./peer.mjs";
const load = createRequire(`${process.env.BENCH_NODE_MODULES}/`);
const worker = await import(load.resolve("graphile-worker"));
const { default: pg } = await import(load.resolve("pg"));
const pool = new pg.Pool({ host: process.env.BENCH_HOST, user: "postgres", database: process.env.BENCH_DATABASE, max: 24 });
pool.on("error", (error) => console.error(error));
pool.on("connect", (client) => client.on("error", (error) => console.error(error)));
const logger = new worker.Logger(() => () => {});
const [command, count, gap] = process.argv.slice(2);
if (command === "setup") {
  await worker.runMigrations({ pgPool: pool, logger });
  process.exit(0);
} else if (command === "preload") {
  const client = await worker.makeWorkerUtils({ pgPool: pool, logger });
  for (let start = 0; start < +count; start += 1000) {
    const jobs = [];
    for (let i = start; i < Math.min(+count, start + 1000); i++) jobs.push({ identifier: "bench", payload: { i, note: "x".repeat(200) } });
    if (client.addJobs) await client.addJobs(jobs);
    else
      await pool.query(
        "select graphile_worker.add_jobs(array(select json_populate_record(null::graphile_worker.job_spec, e) from json_array_elements($1::json) e))",
        [JSON.stringify(jobs)],
      );
  }
  process.exit(0);
} else if (command === "enqueue") {
  const client = await pool.connect();
  await enqueue(+count, +gap, async (payload) => {
    await client.query("begin");
    await client.query(ORDER);
    await client.query("select graphile_worker.add_job('bench', $1::json)", [JSON.stringify(payload)]);
    await client.query("commit");
  });
  process.exit(0);
}
await worker.run({
  pgPool: pool, logger, noHandleSignals: true, taskList: { bench: async (payload) => noteStart(payload.i) },
  preset: { worker: { concurrentJobs: 24, pollInterval: 2000, localQueue: { size: 500, refetchDelay: { durationMs: 10 } }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
});
