// node-redlock, on one server or several. Its protocol is in ../README.md.
import readline from "node:readline";
import { setTimeout } from "node:timers/promises";
import { Redis } from "ioredis";
import Redlock, { ExecutionError } from "redlock";

const [kind, addresses, ttl] = process.argv.slice(2);
if (kind !== "node-redlock") {
  throw new Error(`no kind ${kind}`);
}

const servers = addresses.split(",").map((address) => {
  const [host, port] = address.split(":");
  const server = new Redis({ host, port: Number(port) });
  // Without a listener, ioredis prints each failed connection.
  server.on("error", () => {});
  return server;
});
const redlock = new Redlock(servers);
const duration = Number(ttl);
let held;

/** Asks until the lock is held. An `acquire` with endless tries would keep what a minority grants. */
async function lock(name) {
  for (;;) {
    try {
      held = await redlock.acquire([name], duration);
      return;
    } catch (error) {
      if (!(error instanceof ExecutionError)) {
        throw error;
      }
    }
  }
}

async function tryLock(name) {
  try {
    held = await redlock.acquire([name], duration, { retryCount: 0 });
    return true;
  } catch (error) {
    if (await isTaken(error)) {
      return false;
    }
    throw error;
  }
}

/** Whether the servers that refused the lock are a quorum that has another holder. */
async function isTaken(error) {
  if (!error.attempts) {
    return false;
  }
  // The votes come only when all are in. A silent server casts none; the quorum was there before.
  const votes = await Promise.race([error.attempts.at(-1), setTimeout(200)]);
  if (!votes) {
    return true;
  }
  const refusals = [...votes.votesAgainst.values()];
  const taken = refusals.filter((refusal) => refusal.name === "ResourceLockedError");
  return taken.length >= votes.quorumSize;
}

/** Returns the longest wait for the lock. */
async function count(name, counter, times) {
  let longest = 0;
  for (let number = 0; number < times; number++) {
    const start = performance.now();
    await lock(name);
    longest = Math.max(longest, performance.now() - start);
    const value = Number(await servers[0].get(counter));
    await servers[0].set(counter, value + 1);
    await held.release();
  }
  return Math.round(longest);
}

async function obey([order, name, counter, times]) {
  switch (order) {
    case "lock":
      await lock(name);
      return `held ${name}`;
    case "try":
      return (await tryLock(name)) ? `held ${name}` : "busy";
    case "extend":
      held = await held.extend(duration);
      return "extended";
    case "check":
      return held.expiration > Date.now() ? "valid" : "lost";
    case "unlock":
      await held.release();
      return "released";
    case "count":
      return `counted ${await count(name, counter, Number(times))}`;
    default:
      throw new Error(`no ${order}`);
  }
}

console.log("ready");
for await (const line of readline.createInterface({ input: process.stdin })) {
  try {
    console.log(await obey(line.trim().split(/\s+/)));
  } catch (error) {
    console.log(`error ${error.message.replaceAll("\n", "; ")}`);
  }
}
process.exit(0);
