// pg-boss: batches of 500, four loops, burst when a batch was full.
import { createRequire } from "node:module";
import fs from "node:fs";
const load = createRequire(`${process.env.BENCH_NODE_MODULES}/`);
const loaded = await import(load.resolve("pg-boss"));
const PgBoss = loaded.PgBoss ?? loaded.default;
const [command, count] = process.argv.slice(2);
const boss = new PgBoss({ host: process.env.BENCH_HOST, user: "postgres", database: process.env.BENCH_DATABASE, max: 10 });
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
}
let noted = false;
await boss.work("bench", { batchSize: 500, localConcurrency: 4, pollingIntervalSeconds: 0.5, burstWhenBatchFull: true }, async () => {
  if (!noted) {
    noted = true;
    fs.writeFileSync(process.env.BENCH_FIRST, String(Number(process.hrtime.bigint()) / 1e9));
  }
});
