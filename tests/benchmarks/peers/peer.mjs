// What the peers on Node.js have in common; peer.py says what the commands and variables mean.
import fs from "node:fs";
export const ORDER = "insert into shop_orders (total) values (1.10)";
const now = () => Number(process.hrtime.bigint()) / 1e9; // CLOCK_MONOTONIC, the same in all processes
const starts = process.env.BENCH_STARTS ? fs.openSync(process.env.BENCH_STARTS, "a") : undefined;
let isNoted = false;

export const noteStart = (number) => {
  if (starts !== undefined) fs.writeSync(starts, `${number} ${now()}\n`);
  else if (!isNoted) {
    isNoted = true;
    fs.writeFileSync(process.env.BENCH_FIRST, String(now()));
  }
};

export const enqueue = async (count, gap, commitOne) => {
  const times = [];
  for (let i = 0; i < count; i++) {
    if (gap) await new Promise((resolve) => setTimeout(resolve, gap * 1000));
    await commitOne({ i, note: "x".repeat(200) });
    times.push(now());
  }
  fs.writeSync(1, times.join("\n") + "\n");
};
