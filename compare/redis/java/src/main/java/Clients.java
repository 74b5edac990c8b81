import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import java.util.ArrayList;
import java.util.List;
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Client objects of Redisson, each with connections and an identity of its own. */
final class Clients implements AutoCloseable {
    /** So many have Redisson's defaults; more share their threads, which would be 48 each. */
    private static final int BY_DEFAULT = 8;

    private final String kind;
    private final String url;
    private final List<RedissonClient> clients = new ArrayList<>();
    private MultiThreadIoEventLoopGroup sharedLoops;

    Clients(String kind, String url) {
        this.kind = kind;
        this.url = url;
    }

    /** A lock as one task has it. */
    interface Lock {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    void upTo(int count) {
        if (count > BY_DEFAULT && sharedLoops == null) {
            sharedLoops = new MultiThreadIoEventLoopGroup(4, NioIoHandler.newFactory());
        }
        while (clients.size() < count) {
            clients.add(Redisson.create(clients.size() < BY_DEFAULT ? byDefault() : shared()));
        }
    }

    private Config byDefault() {
        Config config = new Config();
        config.useSingleServer().setAddress(url);
        return config;
    }

    private Config shared() {
        Config config = new Config();
        config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(1);
        return config.setEventLoopGroup(sharedLoops).setThreads(2);
    }

    /** A lock of Redisson belongs to the thread: each task has one of its own in any case. */
    Lock lock(int client, String name, int nth) {
        RedissonClient redisson = clients.get(client);
        switch (kind) {
            case "redisson-rlock":
                return of(redisson.getLock(name));
            case "redisson-fair":
                return of(redisson.getFairLock(name));
            case "redisson-fenced":
                return fenced(redisson.getFencedLock(name));
            case "redisson-read":
                return of(redisson.getReadWriteLock(name).readLock());
            default:
                throw new IllegalArgumentException("no such kind: " + kind);
        }
    }

    boolean isShared() {
        return kind.equals("redisson-read");
    }

    private static Lock of(RLock lock) {
        return new Lock() {
            @Override
            public void acquire() {
                lock.lock();
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    private static Lock fenced(RFencedLock lock) {
        return new Lock() {
            @Override
            public void acquire() {
                lock.lockAndGetToken();
            }

            @Override
            public void release() {
                lock.unlock();
            }
        };
    }

    @Override
    public void close() {
        clients.forEach(RedissonClient::shutdown);
        if (sharedLoops != null) {
            sharedLoops.shutdownGracefully();
        }
    }
}
