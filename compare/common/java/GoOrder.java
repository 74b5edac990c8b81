import java.util.Map;

/** What `go` asks for; see the README. */
final class GoOrder {
    final String lock;
    final boolean own;
    final int clients;
    final int tasks;
    final long hold;
    final long every;
    final long most;
    final long end;
    final String trace;

    GoOrder(Map<String, String> words) {
        lock = words.get("lock");
        own = words.get("own").equals("1");
        clients = Integer.parseInt(words.get("clients"));
        tasks = Integer.parseInt(words.get("tasks"));
        hold = Long.parseLong(words.get("hold"));
        every = Long.parseLong(words.get("every"));
        most = Long.parseLong(words.get("most"));
        end = Long.parseLong(words.get("end"));
        trace = words.get("trace");
        if (!words.get("awaited").equals("1")) {
            throw new IllegalArgumentException("a release of these clients is awaited");
        }
    }

    String name(int client, int task) {
        return own ? lock + "-" + client + "-" + task : lock;
    }
}
