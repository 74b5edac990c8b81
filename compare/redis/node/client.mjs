// Clients in Node.js: `client.mjs KIND URL`. It says `ready`, then answers each order of its standard input with one
// line.
import { writeFile } from "node:fs/promises";
import readline from "node:readline";
import { setTimeout } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock, { ExecutionError } from "redlock";

const TTL = 30_000;

const [kind, url] = process.argv.slice(2);
if (kind !== "node-redlock") {
  throw new Error(`no such kind: ${kind}`);
}
const servers = url.replace(/^redlock:\/\//, "").split(",").map((address) => {
  const [host, port] = address.split(":");
  const server = new Redis({ host, port: Number(port) });
  // Without a listener, ioredis prints each failed connection.
  server.on("error", () => {});
  return server;
});
const redlock = new Redlock(servers);
// Without a listener, an error of a server that the majority does not need would end this process.
redlock.on("error", () => {});

/** CLOCK_MONOTONIC, in nanoseconds. */
const nanos = () => process.hrtime.bigint();

async function sleepUntil(at) {
  const left = Number(at - nanos()) / 1e6;
  if (left > 0) {
    await setTimeout(left);
  }
}

/**
 * Asks until the lock is held, or the time is over: an `acquire` with endless tries would keep what a minority grants.
 * An `acquire` that waits for a dead server takes longer than the limit.
 */
async function acquire(name, limit, over) {
  while (nanos() < limit) {
    const asked = redlock.acquire([name], TTL);
    try {
      return await Promise.race([asked, over]);
    } catch (error) {
      if (!(error instanceof ExecutionError)) {
        throw error;
      }
    } finally {
      asked.catch(() => {});
    }
  }
}

/** Locks and releases until the end; a cycle is client, asked, granted, gave, done; granted 0: it gave up. */
async function cycles(name, order) {
  const [end, hold, every] = [BigInt(order.end), BigInt(order.hold), BigInt(order.every)];
  const limit = end + BigInt(order.limit);
  const over = sleepUntil(limit);
  const log = [];
  let next = nanos();
  while (nanos() < end) {
    if (every > 0n) {
      next += every;
      await sleepUntil(next);
    }
    const asked = nanos();
    const held = await acquire(name, limit, over);
    if (!held) {
      log.push(0n, asked, 0n, 0n, 0n);
      break;
    }
    const granted = nanos();
    if (hold > 0n) {
      await sleepUntil(granted + hold);
    }
    const gave = nanos();
    await held.release();
    log.push(0n, asked, granted, gave, nanos());
  }
  return log;
}

async function obey(line) {
  const [verb, ...words] = line.trim().split(/\s+/);
  const order = Object.fromEntries(words.map((word) => word.split("=")));
  if (verb !== "go" || order.clients !== "1" || order.awaited !== "1") {
    throw new Error("this client is one, holds nothing, and awaits its releases");
  }
  const names = Array.from({ length: Number(order.tasks) }, (_, task) =>
    order.own === "1" ? `${order.lock}-0-${task}` : order.lock,
  );
  const logs = await Promise.all(names.map((name) => cycles(name, order)));
  await writeFile(order.trace, new BigUint64Array(logs.flat()));
}

await Promise.race([Promise.all(servers.map((server) => server.ping())), setTimeout(2000)]);
console.log("ready");
for await (const line of readline.createInterface({ input: process.stdin })) {
  try {
    await obey(line);
    console.log("done");
  } catch (error) {
    console.log(`failed: ${String(error.message).replaceAll("\n", "; ")}`);
  }
}
process.exit(0);
