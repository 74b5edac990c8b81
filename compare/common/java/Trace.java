import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

/** Cycles of five numbers: client, asked, granted, gave, done. */
final class Trace {
    private static final int FIRST = 5 << 12;
    private long[] numbers = new long[FIRST];
    private int count;

    void add(long client, long asked, long granted, long gave, long done) {
        makeRoom(5);
        numbers[count++] = client;
        numbers[count++] = asked;
        numbers[count++] = granted;
        numbers[count++] = gave;
        numbers[count++] = done;
    }

    void add(Trace other) {
        makeRoom(other.count);
        System.arraycopy(other.numbers, 0, numbers, count, other.count);
        count += other.count;
    }

    void write(String path) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(count * Long.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asLongBuffer().put(numbers, 0, count);
        Files.write(Path.of(path), bytes.array());
    }

    private void makeRoom(int more) {
        if (count + more > numbers.length) {
            numbers = Arrays.copyOf(numbers, Math.max(numbers.length * 2, count + more));
        }
    }
}
