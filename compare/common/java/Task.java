import java.util.concurrent.locks.LockSupport;

/** Locks and releases until the end. System.nanoTime() is CLOCK_MONOTONIC on Linux. */
final class Task extends Thread {
    final Trace trace = new Trace();
    Exception failure;
    private final Clients.Lock lock;
    private final int client;
    private final GoOrder order;

    Task(Clients.Lock lock, int client, GoOrder order) {
        this.lock = lock;
        this.client = client;
        this.order = order;
    }

    @Override
    public void run() {
        try {
            cycles();
        } catch (Exception error) {
            failure = error;
        }
    }

    private void cycles() throws Exception {
        long next = System.nanoTime();
        for (long begun = 0; System.nanoTime() < order.end && (order.most == 0 || begun < order.most); begun++) {
            if (order.every > 0) {
                next += order.every;
                sleepUntil(next);
            }
            long asked = System.nanoTime();
            lock.acquire();
            long granted = System.nanoTime();
            if (order.hold > 0) {
                sleepUntil(granted + order.hold);
            }
            long gave = System.nanoTime();
            lock.release();
            trace.add(client, asked, granted, gave, System.nanoTime());
        }
    }

    private static void sleepUntil(long at) {
        for (long now = System.nanoTime(); now < at; now = System.nanoTime()) {
            LockSupport.parkNanos(at - now);
        }
    }
}
