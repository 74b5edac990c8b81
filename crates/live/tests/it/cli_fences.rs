//! The documented command that writes to Redis with a fencing token, as typed in a shell.

use std::process::Command;

use lockkeeper_live::Redis;

use crate::support::{Store, code_of, stdout};

#[path = "../../../lockkeeper-cli/tests/it/documents.rs"]
mod documents;

#[test]
fn recipe_an_older_holders_fenced_write_to_redis_is_refused_and_fails() {
    let (store, server) = (Store::new(), Redis::start().unwrap());
    let line = documents::block("docs/recipes.md", "redis-cli -u ")
        .replace("redis://10.0.0.5", &server.url());
    let token =
        || stdout(&store.output(&["run", "cfg", "--", "printenv", "LOCKKEEPER_FENCING_TOKEN"]));
    let write = |token: &str, line: &str| {
        let mut shell = Command::new("sh");
        let status = shell
            .args(["-c", line])
            .env("LOCKKEEPER_FENCING_TOKEN", token.trim())
            .status()
            .unwrap();
        code_of(status)
    };
    let fence = || {
        let asked = Command::new("redis-cli")
            .args(["-u", &server.url(), "HGET", "cfg", "fence"])
            .output()
            .unwrap();
        stdout(&asked)
    };
    let (older, newer) = (token(), token());
    assert_eq!(write(&newer, &line), 0);
    assert_eq!(write(&older, &line), 1, "the older holder was stopped, and goes on now");
    assert_eq!(fence(), newer);
    assert_eq!(write(&newer, &line), 0, "a holder may write twice");
    // Tokens of a higher epoch are larger than the exact numbers of a script.
    for (token, code) in
        [("18014398509481985", 0), ("18014398509481984", 1), ("18014398509481986", 0), ("9", 1)]
    {
        assert_eq!(write(token, &line), code, "{token}");
    }
    // A server that does not answer has written nothing.
    let nowhere = line.replace(&server.url(), "redis://127.0.0.1:1");
    assert_eq!(write("18014398509481999", &nowhere), 1);
}
