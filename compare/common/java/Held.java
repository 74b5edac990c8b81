import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Locks that are held and renewed while something else is measured. */
final class Held {
    /** How many threads take and hold them: a lock of Redisson belongs to the thread. */
    private static final int AT_ONCE = 16;

    private final List<ExecutorService> threads = new ArrayList<>();
    private final List<Clients.Lock> locks = new ArrayList<>();

    String take(Clients clients, String prefix, int count) throws Exception {
        long before = resident();
        for (int number = 0; number < count; number++) {
            locks.add(clients.lock(0, clients.isShared() ? prefix : prefix + "-" + number, 0));
        }
        // Many readers of one lock are many threads; else a few hold all.
        int owners = clients.isShared() ? count : Math.min(AT_ONCE, count);
        for (int owner = 0; owner < owners; owner++) {
            threads.add(Executors.newSingleThreadExecutor());
        }
        each(lock -> {
            lock.acquire();
            return 0;
        });
        return "done before=" + before + " after=" + resident();
    }

    String giveBack() throws Exception {
        int lost = each(lock -> {
            try {
                lock.release();
                return 0;
            } catch (IllegalMonitorStateException gone) {
                return 1;
            }
        });
        threads.forEach(ExecutorService::shutdown);
        threads.clear();
        locks.clear();
        return "done lost=" + lost;
    }

    private interface Step {
        int of(Clients.Lock lock) throws Exception;
    }

    /** Each lock in the thread that owns it; the sum of the answers. */
    private int each(Step step) throws Exception {
        List<Future<Integer>> outcomes = new ArrayList<>();
        for (int number = 0; number < locks.size(); number++) {
            Clients.Lock lock = locks.get(number);
            Callable<Integer> call = () -> step.of(lock);
            outcomes.add(threads.get(number % threads.size()).submit(call));
        }
        int sum = 0;
        for (Future<Integer> outcome : outcomes) {
            sum += outcome.get();
        }
        return sum;
    }

    /** The resident memory of this process, in bytes. */
    private static long resident() throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                return Long.parseLong(line.replaceAll("\\D", "")) * 1024;
            }
        }
        throw new IOException("/proc/self/status has no VmRSS");
    }
}
