// graphile-worker: 24 concurrent jobs, local queue of 500, batched completion at once.
import { createRequire } from "node:module";
import fs from "node:fs";
const load = createRequire(`${process.env.BENCH_NODE_MODULES}/`);
const worker = await import(load.resolve("graphile-worker"));
const { default: pg } = await import(load.resolve("pg"));
const pool = new pg.Pool({ host: process.env.BENCH_HOST, user: "postgres", database: process.env.BENCH_DATABASE, max: 24 });
const logger = new worker.Logger(() => () => {});
const [command, count] = process.argv.slice(2);
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
}
let noted = false;
const bench = async () => {
  if (!noted) {
    noted = true;
    fs.writeFileSync(process.env.BENCH_FIRST, String(Number(process.hrtime.bigint()) / 1e9));
  }
};
await worker.run({
  pgPool: pool, logger, noHandleSignals: true, taskList: { bench },
  preset: { worker: { concurrentJobs: 24, pollInterval: 2000, localQueue: { size: 500, refetchDelay: { durationMs: 10 } }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
});
