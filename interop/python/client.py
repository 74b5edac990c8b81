"""The Lock of redis-py. Its protocol is in ../README.md."""

import sys
import time

import redis


class Client:
    def __init__(self, address, ttl):
        host, port = address.rsplit(":", 1)
        self.redis = redis.Redis(host=host, port=int(port), decode_responses=True)
        self.ttl = ttl / 1000
        self.held = None

    def obey(self, words):
        match words:
            case ["lock", name]:
                self.lock(name)
                return f"held {name}"
            case ["try", name]:
                lock = self.redis.lock(name, timeout=self.ttl)
                if not lock.acquire(blocking=False):
                    return "busy"
                self.held = lock
                return f"held {name}"
            case ["extend"]:
                self.held.reacquire()
                return "extended"
            case ["check"]:
                return "valid" if self.held.owned() else "lost"
            case ["unlock"]:
                self.held.release()
                return "released"
            case ["count", name, counter, times]:
                longest = 0
                for _ in range(int(times)):
                    start = time.monotonic()
                    self.lock(name)
                    longest = max(longest, time.monotonic() - start)
                    self.redis.set(counter, int(self.redis.get(counter)) + 1)
                    self.held.release()
                return f"counted {longest * 1000:.0f}"
        raise ValueError(f"no {words}")

    def lock(self, name):
        self.held = self.redis.lock(name, timeout=self.ttl)
        self.held.acquire()


def main():
    _, kind, addresses, ttl = sys.argv
    if kind != "redis-py":
        raise SystemExit(f"no kind {kind}")
    client = Client(addresses, int(ttl))
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            answer = client.obey(line.split())
        except Exception as problem:
            answer = f"error {type(problem).__name__}: {problem}"
        print(answer, flush=True)


main()
