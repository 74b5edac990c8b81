package dev.lockkeeper;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.RedissonRedLock;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RedissonClient;

/** One lock of Redisson, of one of its types. */
interface Held {
    /** The number of permits follows. */
    String SEMAPHORE = "redisson-semaphore-";

    /** Waits for the lock, and returns what an answer says beside its name: the token, or nothing. */
    String lock() throws Exception;

    /** As {@link #lock}, or null where another holds the lock. */
    String tryLock() throws Exception;

    void extend() throws Exception;

    boolean isValid() throws Exception;

    void unlock() throws Exception;

    /** The lock with this name. The ttl is in milliseconds. */
    static Held of(String kind, List<RedissonClient> servers, String name, long ttl) {
        RedissonClient server = servers.get(0);
        if (kind.startsWith(SEMAPHORE)) {
            int permits = Integer.parseInt(kind.substring(SEMAPHORE.length()));
            return new Permit(server.getPermitExpirableSemaphore(name), permits, ttl);
        }
        switch (kind) {
            case "redisson":
                return new Plain(server.getLock(name));
            case "redisson-fair":
            case "redisson-fair-short":
                return new Plain(server.getFairLock(name));
            case "redisson-read":
                return new Plain(server.getReadWriteLock(name).readLock());
            case "redisson-write":
                return new Plain(server.getReadWriteLock(name).writeLock());
            case "redisson-fenced":
                return new Fenced(server.getFencedLock(name));
            case "redisson-redlock":
                return new Quorum(servers.stream().map(one -> one.getLock(name)).toArray(RLock[]::new));
            default:
                throw new IllegalArgumentException("no kind " + kind);
        }
    }

    /** A lock without a token. Its watchdog extends its life. */
    class Plain implements Held {
        private final RLock lock;

        Plain(RLock lock) {
            this.lock = lock;
        }

        @Override
        public String lock() {
            lock.lock();
            return "";
        }

        @Override
        public String tryLock() {
            return lock.tryLock() ? "" : null;
        }

        @Override
        public void extend() {
            throw new UnsupportedOperationException("its watchdog extends it");
        }

        @Override
        public boolean isValid() {
            return lock.isHeldByCurrentThread();
        }

        @Override
        public void unlock() {
            lock.unlock();
        }
    }

    /** A lock with a token. */
    final class Fenced extends Plain {
        private final RFencedLock lock;

        Fenced(RFencedLock lock) {
            super(lock);
            this.lock = lock;
        }

        @Override
        public String lock() {
            return " " + lock.lockAndGetToken();
        }

        @Override
        public String tryLock() {
            // Without arguments, Redisson 4.7 waits for the lock.
            Long token = lock.tryLockAndGetToken(0, TimeUnit.MILLISECONDS);
            return token == null ? null : " " + token;
        }
    }

    /** A quorum of locks, each on a server of its own. */
    final class Quorum extends Plain {
        Quorum(RLock[] locks) {
            super(new RedissonRedLock(locks));
        }

        @Override
        public boolean isValid() {
            throw new UnsupportedOperationException("a lock on several servers does not say it");
        }
    }

    /** One of the permits of a semaphore. The first client sets how many there are. */
    final class Permit implements Held {
        private final RPermitExpirableSemaphore semaphore;
        private final long ttl;
        private String permit;

        Permit(RPermitExpirableSemaphore semaphore, int permits, long ttl) {
            this.semaphore = semaphore;
            this.ttl = ttl;
            semaphore.trySetPermits(permits);
        }

        @Override
        public String lock() throws InterruptedException {
            permit = semaphore.acquire(ttl, TimeUnit.MILLISECONDS);
            return "";
        }

        @Override
        public String tryLock() throws InterruptedException {
            permit = semaphore.tryAcquire(0, ttl, TimeUnit.MILLISECONDS);
            return permit == null ? null : "";
        }

        @Override
        public void extend() {
            if (!semaphore.updateLeaseTime(permit, ttl, TimeUnit.MILLISECONDS)) {
                throw new IllegalStateException("the permit is lost");
            }
        }

        @Override
        public boolean isValid() {
            return semaphore.getLeaseTime(permit) > 0;
        }

        @Override
        public void unlock() {
            semaphore.release(permit);
        }
    }
}
