import io.etcd.jetcd.ByteSequence;
import io.etcd.jetcd.Client;
import io.etcd.jetcd.lease.LeaseKeepAliveResponse;
import io.grpc.stub.StreamObserver;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.logging.LogManager;

/** Client objects of jetcd, each with a connection and leases of its own. */
final class Clients implements AutoCloseable {
    /** Seconds, as those of the others here. */
    private static final long TTL = 30;

    private final String[] endpoints;
    private final List<One> clients = new ArrayList<>();

    Clients(String kind, String endpoints) {
        if (!kind.equals("jetcd")) {
            throw new IllegalArgumentException("no such kind: " + kind);
        }
        // grpc logs at length how it found its way.
        LogManager.getLogManager().reset();
        this.endpoints = ("http://" + endpoints.replace(",", ",http://")).split(",");
    }

    /** A lock as one task has it. */
    interface Lock {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    private static final class One {
        final Client client;
        /** Two locks of one name on one lease would be the same. */
        final Map<Integer, Long> leases = new HashMap<>();

        /** It has connected, and has a lease. */
        One(String[] endpoints) throws Exception {
            client = Client.builder().endpoints(endpoints).build();
            lease(0);
        }

        long lease(int nth) throws Exception {
            Long lease = leases.get(nth);
            if (lease == null) {
                lease = client.getLeaseClient().grant(TTL).get().getID();
                client.getLeaseClient().keepAlive(lease, new Ignored());
                leases.put(nth, lease);
            }
            return lease;
        }
    }

    void upTo(int count) throws Exception {
        while (clients.size() < count) {
            clients.add(new One(endpoints));
        }
    }

    Lock lock(int client, String name, int nth) throws Exception {
        One one = clients.get(client);
        long lease = one.lease(nth);
        ByteSequence bytes = ByteSequence.from(name, StandardCharsets.UTF_8);
        return new Lock() {
            private ByteSequence key;

            @Override
            public void acquire() throws Exception {
                key = one.client.getLockClient().lock(bytes, lease).get().getKey();
            }

            @Override
            public void release() throws Exception {
                one.client.getLockClient().unlock(key).get();
            }
        };
    }

    boolean isShared() {
        return false;
    }

    @Override
    public void close() {
        clients.forEach(one -> one.client.close());
    }

    /** Nobody looks at the renewals. */
    private static final class Ignored implements StreamObserver<LeaseKeepAliveResponse> {
        @Override
        public void onNext(LeaseKeepAliveResponse response) {}

        @Override
        public void onError(Throwable error) {}

        @Override
        public void onCompleted() {}
    }
}
