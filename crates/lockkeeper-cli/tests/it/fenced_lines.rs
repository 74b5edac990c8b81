//! The lines of the documents that send a fencing token along: each line ends with a failure if its
//! write was refused.

use std::process::Command;

use rusqlite::Connection;

use crate::documents::{block, blocks};
use crate::support::{Store, code_of, script, stdout, text};

/// Programs that write with a token in a shell.
const CLIENTS: [&str; 3] = ["psql", "mysql", "redis-cli"];
/// The clients of servers that no test starts yet: their SQL runs on SQLite here, and stand-ins
/// print the results. `redis-cli` runs on a real server, in the tests that start one.
const SERVER_NOT_THERE_YET: [&str; 2] = ["psql", "mysql"];

/// A database, and stand-ins for the clients in `PATH`. A stand-in records its SQL and prints a
/// given answer.
struct Database {
    store: Store,
    connection: Connection,
}

impl Database {
    fn new() -> Self {
        let (store, connection) = (Store::new(), Connection::open_in_memory().unwrap());
        connection
            .execute_batch("CREATE TABLE cfg (id BIGINT, v BIGINT); INSERT INTO cfg VALUES (1, 0)")
            .unwrap();
        for client in SERVER_NOT_THERE_YET {
            let stand_in = "#!/bin/sh\nfor arg; do case $arg in *UPDATE*) printf %s \"$arg\" > sql;; esac; done\ncat answer\n";
            script(&store.path(client), stand_in);
        }
        Self { store, connection }
    }

    fn add_column(&self) {
        let ddl = block("docs/recipes.md", "ADD COLUMN fence");
        self.connection.execute_batch(&ddl).unwrap();
    }

    /// The exit code of the line for a user with this token.
    fn exit_code(&self, line: &str, token: &str) -> i32 {
        let run = |answer: &str| {
            std::fs::write(self.store.path("answer"), answer).unwrap();
            let mut shell = Command::new("sh");
            let path = format!("{}:/usr/bin:/bin", self.store.path("").display());
            shell.args(["-c", line]).env("PATH", path).env("LOCKKEEPER_FENCING_TOKEN", token);
            code_of(shell.current_dir(self.store.path("")).status().unwrap())
        };
        run("");
        let sql = text(self.store.path("sql"));
        run(&self.answer(&sql).unwrap_or_default())
    }

    /// The rows of all statements, in the form that clients print without a frame.
    fn answer(&self, sql: &str) -> rusqlite::Result<String> {
        let mut answer = String::new();
        for statement in sql.split(';') {
            let mut statement = self.connection.prepare(statement)?;
            let mut rows = statement.query(())?;
            while let Some(row) = rows.next()? {
                answer.push_str(&format!("{}\n", row.get::<_, i64>(0)?));
            }
        }
        Ok(answer)
    }

    fn fence(&self) -> String {
        self.connection
            .query_row("SELECT fence FROM cfg WHERE id=1", (), |row| row.get::<_, i64>(0))
            .unwrap()
            .to_string()
    }
}

fn token(store: &Store) -> String {
    stdout(&store.output(&["run", "cfg", "--", "printenv", "LOCKKEEPER_FENCING_TOKEN"]))
        .trim()
        .to_owned()
}

#[test]
fn recipe_an_older_holders_fenced_update_changes_no_row_and_fails() {
    for client in SERVER_NOT_THERE_YET {
        let database = Database::new();
        let line = block("docs/recipes.md", &format!("{client} -"));
        let (older, newer) = (token(&database.store), token(&database.store));
        assert_ne!(database.exit_code(&line, &newer), 0, "{client}: there is no such column yet");
        database.add_column();
        assert_eq!(database.exit_code(&line, &newer), 0, "{client}");
        // The older holder was stopped, and goes on now.
        assert_eq!(database.exit_code(&line, &older), 1, "{client}");
        assert_eq!(database.exit_code(&line, &newer), 0, "{client}: a holder may write twice");
        assert_eq!(database.fence(), newer, "{client}");
    }
}

#[test]
fn a_refused_write_is_the_exit_code_of_run() {
    let database = Database::new();
    database.add_column();
    let written = block("README.md", "psql -");
    let command = written
        .trim()
        .strip_prefix("lockkeeper run cfg -- sh -c '")
        .unwrap()
        .strip_suffix('\'')
        .unwrap();
    assert_eq!(database.exit_code(command, "5"), 0);
    assert_eq!(database.exit_code(command, "4"), 1);
    // The client prints nothing then, and `run` turns that into the code of its command.
    let path = format!("{}:/usr/bin:/bin", database.store.path("").display());
    std::fs::write(database.store.path("answer"), "").unwrap();
    let refused = database
        .store
        .command(&["run", "cfg", "--", "sh", "-c", command])
        .env("PATH", path)
        .status()
        .unwrap();
    assert_eq!(refused.code(), Some(1));
}

#[test]
fn recipe_the_file_with_the_write_to_redis_runs_under_the_lock() {
    let store = Store::new();
    script(&store.path("write.sh"), &block("docs/recipes.md", "redis-cli -u "));
    script(
        &store.path("redis-cli"),
        "#!/bin/sh\nfor last; do :; done\necho \"$last $*\" > asked\ncat answer\n",
    );
    let programs =
        std::path::Path::new(env!("CARGO_BIN_EXE_lockkeeper")).parent().unwrap().display();
    let path = format!("{}:{programs}:/usr/bin:/bin", store.path("").display());
    for (answer, code) in [("1\n", 0), ("0\n", 1), ("", 1)] {
        std::fs::write(store.path("answer"), answer).unwrap();
        let mut shell = Command::new("sh");
        shell.arg("-ec").arg(block("docs/recipes.md", "./write.sh")).current_dir(store.path(""));
        let status =
            shell.env("PATH", &path).env("LOCKKEEPER_STORE", store.url()).status().unwrap();
        assert_eq!(code_of(status), code, "{answer:?}");
        let asked = text(store.path("asked"));
        assert!(
            asked.starts_with("1 -u redis://10.0.0.5 EVAL ")
                && asked.contains("redis.call('HSET', "),
            "{asked}"
        );
    }
}

#[test]
fn every_documented_write_with_a_token_fails_where_it_is_refused() {
    let manual = stdout(&Store::new().output(&["man"])).replace("\\-", "-");
    let documented = ["README.md", "docs/recipes.md"].into_iter().flat_map(blocks);
    let mut written = Vec::new();
    for text in documented.chain([manual]).filter(|text| text.contains("$LOCKKEEPER_FENCING_TOKEN"))
    {
        for client in CLIENTS.into_iter().filter(|client| text.contains(&format!("{client} -"))) {
            assert!(text.contains("| grep -qx 1"), "{text}");
            written.push(client);
        }
    }
    written.sort_unstable();
    assert_eq!(written, ["mysql", "psql", "psql", "psql", "redis-cli"]);
}
