import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Clients in Java: `Client KIND URL`. It says `ready`, then answers each order of its standard input with one line. */
public final class Client {
    private final Clients clients;
    private final Held held = new Held();

    private Client(Clients clients) {
        this.clients = clients;
    }

    public static void main(String[] args) throws Exception {
        try (Clients clients = new Clients(args[0], args[1])) {
            clients.upTo(1);
            System.out.println("ready");
            Client client = new Client(clients);
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(client.answer(line));
            }
        }
        System.exit(0);
    }

    private String answer(String line) {
        try {
            return obey(line);
        } catch (Exception error) {
            return "failed: " + String.valueOf(error).replace('\n', ' ');
        }
    }

    private String obey(String line) throws Exception {
        String[] fields = line.trim().split("\\s+");
        Map<String, String> words = new HashMap<>();
        for (int i = 1; i < fields.length; i++) {
            String[] pair = fields[i].split("=", 2);
            words.put(pair[0], pair[1]);
        }
        switch (fields[0]) {
            case "go":
                cycles(new GoOrder(words));
                return "done";
            case "hold":
                return held.take(clients, words.get("lock"), Integer.parseInt(words.get("count")));
            case "drop":
                return held.giveBack();
            default:
                throw new IllegalArgumentException("no such order: " + line);
        }
    }

    /** One thread for each task of each client object. */
    private void cycles(GoOrder order) throws Exception {
        clients.upTo(order.clients);
        List<Task> tasks = new ArrayList<>();
        for (int client = 0; client < order.clients; client++) {
            for (int task = 0; task < order.tasks; task++) {
                tasks.add(new Task(clients.lock(client, order.name(client, task), order.own ? 0 : task), client, order));
            }
        }
        tasks.forEach(Thread::start);
        Trace trace = new Trace();
        for (Task task : tasks) {
            task.join();
            if (task.failure != null) {
                throw task.failure;
            }
            trace.add(task.trace);
        }
        trace.write(order.trace);
    }
}
