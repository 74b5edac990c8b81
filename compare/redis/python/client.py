"""Clients in Python: `client.py KIND URL`. It says `ready`, then answers each order of its standard input with one line."""

import random
import struct
import sys
import threading
import time

import redis
from redis.lock import Lock

TTL = 30  # seconds


class OftenLock(Lock):
    """For those who would rather ask too often than wait: 1 ms on average."""

    @property
    def sleep(self):
        return random.uniform(0, 0.002)

    @sleep.setter
    def sleep(self, seconds):
        pass


KINDS = {"redis-py": Lock, "redis-py-1ms": OftenLock}


def cycles(lock, order, log, errors):
    """Locks and releases until the end; a cycle is (client, asked, granted, gave, done), granted 0: it gave up."""
    nanos = time.monotonic_ns
    end, hold, every = int(order["end"]), int(order["hold"]) / 1e9, int(order["every"])
    limit = end + int(order["limit"])
    due = nanos()
    try:
        while nanos() < end:
            if every:
                due += every
                time.sleep(max(0, due - nanos()) / 1e9)
            asked = nanos()
            if not lock.acquire(blocking_timeout=(limit - asked) / 1e9):
                log.append((0, asked, 0, 0, 0))
                return
            granted = nanos()
            if hold:
                time.sleep(hold)
            gave = nanos()
            lock.release()
            log.append((0, asked, granted, gave, nanos()))
    except Exception as error:
        errors.append(error)


def obey(client, kind, line):
    verb, *words = line.split()
    order = dict(word.split("=", 1) for word in words)
    if verb != "go" or order["clients"] != "1" or order["awaited"] != "1":
        raise ValueError("this client is one, holds nothing, and awaits its releases")
    logs, errors, threads = [], [], []
    for task in range(int(order["tasks"])):
        name = f"{order['lock']}-0-{task}" if order["own"] == "1" else order["lock"]
        log = []
        logs.append(log)
        lock = client.lock(name, timeout=TTL, lock_class=kind)
        threads.append(threading.Thread(target=cycles, args=(lock, order, log, errors)))
    if len(threads) == 1:
        threads[0].run()
    else:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]
    with open(order["trace"], "wb") as trace:
        for log in logs:
            for cycle in log:
                trace.write(struct.pack("<5Q", *cycle))


def main():
    kind, url = KINDS[sys.argv[1]], sys.argv[2]
    client = redis.Redis.from_url(url)
    client.ping()
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            obey(client, kind, line)
            print("done", flush=True)
        except Exception as error:
            print("failed:", repr(error).replace("\n", " "), flush=True)


main()
