package dev.lockkeeper;

import static java.nio.charset.StandardCharsets.UTF_8;

import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.KeyValue;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.etcd.jetcd.support.CloseableClient;
import io.grpc.stub.StreamObserver;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;

/** The locks of jetcd, with a lease of its own that it keeps alive. Its protocol is in ../README.md. */
public final class Jetcd {
    private final Client client;
    private final long lease;
    private ByteSequence key;

    private Jetcd(Client client, long lease) {
        this.client = client;
        this.lease = lease;
    }

    public static void main(String[] arguments) throws Exception {
        Logger.getLogger("").setLevel(Level.WARNING);
        String[] endpoints = Arrays.stream(arguments[0].split(",")).map(one -> "http://" + one).toArray(String[]::new);
        try (Client client = Client.builder().endpoints(endpoints).build()) {
            long lease = client.getLeaseClient().grant(Long.parseLong(arguments[1])).get().getID();
            try (CloseableClient alive = client.getLeaseClient().keepAlive(lease, new Silent())) {
                new Jetcd(client, lease).serve();
                client.getLeaseClient().revoke(lease).get();
            }
        }
    }

    private void serve() throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, UTF_8));
        answer("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                answer(obey(line.trim().split(" ")));
            } catch (Exception problem) {
                answer("error " + problem);
            }
        }
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "lock":
                lock(words[1]);
                return "held " + key;
            case "unlock":
                unlock();
                return "released";
            case "count":
                for (int number = 0; number < Integer.parseInt(words[3]); number++) {
                    lock(words[1]);
                    increment(bytes(words[2]));
                    unlock();
                }
                return "counted";
            default:
                return "error no " + words[0];
        }
    }

    private void lock(String name) throws Exception {
        key = client.getLockClient().lock(bytes(name), lease).get().getKey();
    }

    private void unlock() throws Exception {
        client.getLockClient().unlock(key).get();
        key = null;
    }

    private void increment(ByteSequence counter) throws Exception {
        List<KeyValue> found = client.getKVClient().get(counter).get().getKvs();
        long count = found.isEmpty() ? 0 : Long.parseLong(found.get(0).getValue().toString());
        client.getKVClient().put(counter, bytes(Long.toString(count + 1))).get();
    }

    private static ByteSequence bytes(String text) {
        return ByteSequence.from(text, UTF_8);
    }

    private static void answer(String line) {
        System.out.println(line);
        System.out.flush();
    }

    /** The lease is looked after by jetcd; who loses it learns so from what etcd answers. */
    private static final class Silent implements StreamObserver<LeaseKeepAliveResponse> {
        @Override
        public void onNext(LeaseKeepAliveResponse response) {}

        @Override
        public void onError(Throwable problem) {}

        @Override
        public void onCompleted() {}
    }
}
