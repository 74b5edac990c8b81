package dev.lockkeeper;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RBucket;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.LongCodec;
import org.redisson.config.Config;

/** The locks of Redisson, with its watchdog. Their protocol is in ../../README.md. */
public final class RedissonClients {
    private final String kind;
    private final long ttl;
    private final List<RedissonClient> servers = new ArrayList<>();
    private Held held;

    private RedissonClients(String kind, String[] addresses, long ttl) {
        this.kind = kind;
        this.ttl = ttl;
        for (String address : addresses) {
            Config config = new Config().setLockWatchdogTimeout(ttl);
            if (kind.equals("redisson-fair-short")) {
                // By default a dead waiter keeps its place for five minutes.
                config.setFairLockWaitTimeout(ttl);
            }
            // Many clients start on few processors.
            config.setThreads(2).setNettyThreads(2);
            config.useSingleServer()
                    .setAddress("redis://" + address)
                    .setConnectionMinimumIdleSize(1)
                    .setConnectionPoolSize(4);
            servers.add(Redisson.create(config));
        }
    }

    public static void main(String[] arguments) throws Exception {
        long ttl = Long.parseLong(arguments[2]);
        RedissonClients clients = new RedissonClients(arguments[0], arguments[1].split(","), ttl);
        clients.serve();
        clients.servers.forEach(RedissonClient::shutdown);
    }

    private void serve() throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        answer("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                answer(obey(line.trim().split(" ")));
            } catch (Exception problem) {
                answer("error " + problem.toString().replace('\n', ' '));
            }
        }
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "lock":
                held = of(words[1]);
                return "held " + words[1] + held.lock();
            case "try":
                Held lock = of(words[1]);
                String token = lock.tryLock();
                if (token == null) {
                    return "busy";
                }
                held = lock;
                return "held " + words[1] + token;
            case "extend":
                held.extend();
                return "extended";
            case "check":
                return held.isValid() ? "valid" : "lost";
            case "unlock":
                held.unlock();
                return "released";
            case "count":
                return "counted " + count(of(words[1]), words[2], Integer.parseInt(words[3]));
            default:
                return "error no " + words[0];
        }
    }

    private Held of(String name) {
        return Held.of(kind, servers, name, ttl);
    }

    /** Returns the longest wait for the lock, in milliseconds. */
    private long count(Held lock, String counter, int times) throws Exception {
        RBucket<Long> bucket = servers.get(0).getBucket(counter, LongCodec.INSTANCE);
        long longest = 0;
        for (int number = 0; number < times; number++) {
            long start = System.nanoTime();
            lock.lock();
            longest = Math.max(longest, System.nanoTime() - start);
            bucket.set(bucket.get() + 1);
            lock.unlock();
        }
        return longest / 1_000_000;
    }

    private static void answer(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
