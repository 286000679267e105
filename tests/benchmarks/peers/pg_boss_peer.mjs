// pg-boss: batches of 500, four loops, burst when a batch was full.
import { createRequire } from "node:module";
import { enqueue, noteStart, ORDER } from "./peer.mjs";
const load = createRequire(`${process.env.BENCH_NODE_MODULES}/`);
const loaded = await import(load.resolve("pg-boss"));
const { default: pg } = await import(load.resolve("pg"));
const PgBoss = loaded.PgBoss ?? loaded.default;
const [command, count, gap] = process.argv.slice(2);
const server = { host: process.env.BENCH_HOST, user: "postgres", database: process.env.BENCH_DATABASE };
const boss = new PgBoss({ ...server, max: 10 });
boss.on("error", (error) => console.error(error));
await boss.start();
if (command === "setup") {
  await boss.createQueue("bench");
  process.exit(0);
} else if (command === "preload") {
  for (let start = 0; start < +count; start += 1000) {
    const jobs = [];
    for (let i = start; i < Math.min(+count, start + 1000); i++) jobs.push({ data: { i, note: "x".repeat(200) } });
    await boss.insert("bench", jobs);
  }
  process.exit(0);
} else if (command === "enqueue") {
  const client = new pg.Client(server);
  await client.connect();
  const db = { executeSql: (text, values) => client.query(text, values) };
  await enqueue(+count, +gap, async (payload) => {
    await client.query("begin");
    await client.query(ORDER);
    await boss.send("bench", payload, { db });
    await client.query("commit");
  });
  process.exit(0);
}
await boss.work("bench", { batchSize: 500, localConcurrency: 4, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true }, async (jobs) => {
  for (const job of jobs) noteStart(job.data.i);
});
