//! Every error is one line that names the problem and ends with a remedy.

use std::ffi::OsStr;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use crate::support::{Store, program, script, stderr, stdout};

/// Fails with this code and one line that has all of these pieces, and `Try: ` before its end.
fn assert_refused(output: &Output, code: i32, pieces: &[&str]) {
    let printed = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{printed}");
    assert!(
        printed.starts_with("lockkeeper: ")
            && printed.ends_with('\n')
            && printed.lines().count() == 1,
        "{printed:?}"
    );
    assert!(!printed.trim_end().contains(char::is_control), "{printed:?}");
    for piece in pieces.iter().chain(&["Try: "]) {
        assert!(printed.contains(piece), "{piece:?} is missing: {printed}");
    }
    assert_eq!(stdout(output), "");
}

#[test]
fn error_of_a_value_names_the_help_of_its_command() {
    let store = Store::new();
    let long = "x".repeat(300);
    let cut = format!("\"{}…\"", "x".repeat(40));
    for (args, pieces) in [
        (
            &["list", "--limit", "x"][..],
            &["--limit", "\"x\" is no number. Try: a number above 0"][..],
        ),
        (&["list", "--limit", "4294967296"], &["--limit", "is no number below 2^32. Try: "]),
        (
            &["bench", "--tasks", "x"],
            &["--tasks", "\"x\" is no number. Try: a number from 1 to 100000"],
        ),
        (&["bench", "--names", "0"], &["--names", "Try: a number from 1 to 100000"]),
        (&["run", &long, "--", "true"], &[&cut, "it has 300 bytes"]),
        (&["run", "a", "--events", "", "--", "true"], &["--events", "Try: lockkeeper run --help"]),
        (&["run", "a", "-t"], &["--ttl", "Try: lockkeeper run --help"]),
        (
            &["run", "a", "--on-lost", "stop", "--", "true"],
            &["--on-lost", "Try: term or kill or ignore"],
        ),
        (
            &["run", "a", "--owner", &long, "--", "true"],
            &["the owner has 300 bytes. Try: at most 255"],
        ),
        (&["run", "a", "--owner", "", "--", "true"], &["the owner is empty, as where a variable"]),
        (&["run", "a", "--prefix", "\n", "--", "true"], &["--prefix \"\\n\""]),
        (&["list", "--prefix", &long], &["--prefix", &cut, "at most 254 bytes"]),
        (&["run", "a", "--max-hold", "0", "--", "true"], &["--max-hold 0"]),
        (&["list", "--connect-timeout", "0"], &["--connect-timeout", "Try: 10ms or more"]),
        (&["list", "--connect-timeout", "9ms"], &["\"9ms\" is too short", "Try: 10ms or more"]),
    ] {
        assert_refused(&store.output(args), 64, pieces);
    }
    let reason = "x".repeat(2000);
    let output = store.output(&["run", "a", "--reason", &reason, "--", "true"]);
    assert_refused(&output, 64, &["lock \"a\"", "2000 bytes", "at most 1024"]);
}

#[test]
fn error_of_an_impossible_ttl_has_readable_units() {
    let store = Store::new();
    for (ttl, shown) in [("0", "a ttl of 0s"), ("1ms", "a ttl of 1ms"), ("9000h", "a ttl of 9000h")]
    {
        let output = store.output(&["run", "a", "-t", ttl, "--", "true"]);
        assert_refused(&output, 64, &["lock \"a\"", &store.url(), shown, "Try: 100ms to 8760h"]);
        let output = store.output(&["acquire", "a", "-t", ttl, "--handle-file", "h"]);
        assert_refused(&output, 64, &["lock \"a\"", &store.url(), shown, "Try: 100ms to 8760h"]);
    }
    let output = store.output(&["run", "a", "--lock-delay", "25h", "--", "true"]);
    assert_refused(&output, 64, &["lock \"a\"", "a lock-delay of 25h", "Try: 0s to 24h"]);
    let output = store.output(&["run", "a", "b", "-t", "1ms", "--", "true"]);
    assert_refused(&output, 64, &["a ttl of 1ms"]);
    assert!(!stderr(&output).contains("lock \""), "{}", stderr(&output));
    for option in ["--min-hold", "--once-per"] {
        let output = store.output(&["run", "a", option, "375d", "--", "true"]);
        assert_refused(&output, 64, &["lock \"a\"", "a min_hold of 9000h", "Try: 0s to 8760h"]);
    }
}

#[test]
fn error_of_a_default_ttl_is_one_of_the_configuration() {
    let store = Store::new();
    let url = format!("{}?ttl=1ms", store.url());
    fs::write(
        store.path("c.toml"),
        format!("[stores]\nprod = {{ url = \"{}\", ttl = \"1ms\" }}\n", store.url()),
    )
    .unwrap();
    let on = |args: &[&str]| {
        let mut command = program();
        command
            .args(args)
            .env("LOCKKEEPER_CONFIG", store.path("c.toml"))
            .current_dir(store.path(""))
            .output()
            .unwrap()
    };
    for of in [&url, "prod"] {
        for args in
            [&["run", "a", "--", "true"][..], &["acquire", "a", "--handle-file", "h"], &["list"]]
        {
            assert_refused(
                &on(&[&["-S", of], args].concat()),
                78,
                &["a ttl of 1ms", "Try: 100ms to 8760h"],
            );
        }
        // The valid option is not to blame, and the message names the option before the problem.
        let output = on(&["-S", of, "run", "a", "--lock-delay", "1s", "--", "true"]);
        assert_refused(&output, 78, &["a ttl of 1ms"]);
        assert_eq!(on(&["-S", of, "run", "a", "-t", "1s", "--", "true"]).status.code(), Some(0));
    }
}

#[test]
fn error_of_options_that_exclude_each_other_says_to_take_one() {
    let store = Store::new();
    for (args, both) in [
        (&["run", "-n", "-w", "5", "a", "--", "true"][..], ["--try", "--wait"]),
        (&["run", "--shared", "--permits", "2", "a", "--", "true"], ["--shared", "--permits"]),
        (&["list", "-q", "-v"], ["--quiet", "--verbose"]),
    ] {
        let output = store.output(args);
        assert_refused(&output, 64, &both);
        assert!(stderr(&output).ends_with(". Try: one of the two\n"), "{}", stderr(&output));
    }
}

#[test]
fn error_of_an_absent_store_says_how_long_it_was_tried() {
    let list = |address: SocketAddr| {
        let url = format!("redis://{address}");
        program().args(["-S", &url, "--connect-timeout", "6s", "list"]).output().unwrap()
    };
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_refused(&list(free), 69, &["refused", "; tried for 6s. Try: "]);
    // A server that accepts and sends nothing: each try ends before the time of all tries together.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    assert_refused(
        &list(silent.local_addr().unwrap()),
        69,
        &["did not answer within 3s; tried for 6s. Try: "],
    );
}

#[test]
fn short_connect_timeout_names_the_one_that_lets_the_error_say_why() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rediss://{}", silent.local_addr().unwrap());
    let list = |limit: &str| {
        program().args(["-S", &url, "--connect-timeout", limit, "list"]).output().unwrap()
    };
    assert_refused(
        &list("300ms"),
        69,
        &["did not answer within 300ms. Try: --connect-timeout 4s, so that the error names"],
    );
    assert_refused(&list("4s"), 69, &["TLS failed", "redis:// instead of rediss://"]);
}

#[test]
fn error_whose_remedy_is_doctor_names_the_store_that_was_typed() {
    let store = Store::new();
    let url =
        format!("redis://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let text = format!(
        "default_store = \"prod\"\n[stores]\nprod = {{ url = \"{url}\", password = \"hunter2\" }}\n"
    );
    let config = store.path("c.toml");
    fs::write(&config, text).unwrap();
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    let remedy = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = program();
        command
            .args(args)
            .args(["--connect-timeout", "0.3", "list"])
            .envs(variables.iter().copied());
        let output = command.output().unwrap();
        assert_refused(&output, 69, &["refused"]);
        let printed = stderr(&output);
        assert!(!printed.contains("hunter2"), "{printed}");
        printed.rsplit_once("Try: ").unwrap().1.split(',').next().unwrap().to_owned()
    };
    let quoted = format!("{url}?ttl=20s&prefix=a/");
    let file = config.to_str().unwrap();
    let set = [("LOCKKEEPER_CONFIG", file)];
    assert_eq!(remedy(&["-S", &url], &[]), format!("lockkeeper doctor -S {url}"));
    assert_eq!(remedy(&["-S", &quoted], &[]), format!("lockkeeper doctor -S '{quoted}'"));
    assert_eq!(remedy(&["-S", "prod"], &set), "lockkeeper doctor -S prod");
    assert_eq!(remedy(&["--config", file], &[]), format!("lockkeeper doctor --config {file}"));
    // The remedy does not repeat variables that the next command has too.
    assert_eq!(remedy(&[], &set), "lockkeeper doctor");
    assert_eq!(remedy(&[], &[("LOCKKEEPER_STORE", &url)]), "lockkeeper doctor");
}

#[test]
fn error_of_bytes_that_are_no_text_names_the_allowed_places() {
    let store = Store::new();
    let bytes = OsStr::from_bytes(b"\xff");
    for command in ["run", "elect", "leader", "inspect", "list", "watch", "acquire"] {
        let mut command = store.command(&[command]);
        assert_refused(&command.arg(bytes).output().unwrap(), 64, &["UTF-8", "behind --"]);
    }
    let output = store.command(&["run", "a", "--", "printf", "%s"]).arg(bytes).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"\xff"[..]));
    for name in ["STORE", "PREFIX", "OWNER", "LOG", "PASSWORD", "REQUIRE_STORE"] {
        let name = format!("LOCKKEEPER_{name}");
        let mut command =
            if name == "LOCKKEEPER_REQUIRE_STORE" { program() } else { store.command(&[]) };
        if name == "LOCKKEEPER_STORE" {
            command = program();
        }
        assert_refused(
            &command.arg("list").env(&name, bytes).output().unwrap(),
            78,
            &[&name, "UTF-8"],
        );
    }
}

#[test]
fn error_with_what_a_stranger_typed_stays_in_its_line() {
    let store = Store::new();
    assert_refused(&store.output(&["run", "a", "--", "no\nsuch\x1b[2J"]), 127, &["no\\nsuch"]);
    let mut command = program();
    assert_refused(
        &command.args(["--config", "/no\nwhere", "list"]).output().unwrap(),
        78,
        &["/no\\nwhere"],
    );
    let mut command = store.command(&["list"]);
    assert_refused(
        &command.env("LOCKKEEPER_PASSWORD_FILE", "/no\nwhere").output().unwrap(),
        78,
        &["/no\\nwhere"],
    );
}

#[test]
fn error_of_a_file_without_end_comes_before_memory_is_full() {
    let store = Store::new();
    let zero = "/dev/zero";
    // A mebibyte is read and no more, which this leaves room for.
    let limited = |args: &[&str], set: &[(&str, &str)]| {
        let line = format!(
            "ulimit -v 1000000; exec {} -S {} \"$@\"",
            env!("CARGO_BIN_EXE_lockkeeper"),
            store.url()
        );
        let mut command = Command::new("sh");
        command
            .args(["-c", &line, "sh"])
            .args(args)
            .env("LOCKKEEPER_CONFIG", "/dev/null")
            .current_dir(store.path(""));
        command.envs(set.iter().copied()).stdin(Stdio::null()).output().unwrap()
    };
    assert_refused(&limited(&["--config", zero, "list"], &[]), 78, &[zero, "more than 1 MiB"]);
    let name = "LOCKKEEPER_PASSWORD_FILE";
    assert_refused(&limited(&["list"], &[(name, zero)]), 78, &[name, zero, "more than 1 MiB"]);
    for command in ["renew", "release"] {
        assert_refused(
            &limited(&[command, "--handle-file", zero], &[]),
            78,
            &[zero, "more than 1 MiB"],
        );
    }
}

#[test]
fn error_of_a_handle_file_comes_before_anybody_waits_for_the_lock() {
    let store = Store::new();
    let _holder = store.hold("a");
    fs::write(store.path("plain"), "").unwrap();
    let long = "x".repeat(300);
    for (file, pieces) in [
        ("nowhere/h", &["nowhere/h", "cannot be written"][..]),
        ("plain/h", &["plain/h", "cannot be written"]),
        ("h/", &["h/", "cannot be written"]),
        (&long, &["cannot be written", "too long"]),
        ("plain", &["plain", "exists already"]),
        (".", &["exists already"]),
    ] {
        assert_refused(&store.output(&["acquire", "a", "--handle-file", file]), 78, pieces);
    }
    for command in ["renew", "release"] {
        let output = store.output(&[command, "--handle-file", "nowhere/h"]);
        assert_refused(&output, 78, &["nowhere/h", "cannot be read", "lockkeeper acquire"]);
        assert_refused(
            &store.output(&[command, "--handle-file", "plain"]),
            78,
            &["plain", "not a handle", "lkh1."],
        );
    }
}

#[test]
fn error_of_a_readable_handle_file_is_only_a_warning() {
    let store = Store::new();
    assert_eq!(store.code(&["acquire", "a", "--handle-file", "h"]), 0);
    fs::set_permissions(store.path("h"), fs::Permissions::from_mode(0o644)).unwrap();
    let output = store.output(&["renew", "--handle-file", "h"]);
    let printed = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(
        printed.contains("\"h\" is open to others")
            && printed.trim_end().ends_with("Try: chmod 600"),
        "{printed}"
    );
    assert_eq!(stderr(&store.output(&["-q", "renew", "--handle-file", "h"])), "");
    assert_eq!(store.code(&["release", "--handle-file", "h"]), 0);
}

#[test]
fn error_of_a_home_that_is_none_makes_no_store_elsewhere() {
    let store = Store::new();
    for home in ["", "home"] {
        let mut command = program();
        command
            .args(["-S", "file:~/lockkeeper-test/l.db", "list"])
            .env("HOME", home)
            .current_dir(store.path(""));
        assert_refused(&command.output().unwrap(), 78, &["HOME", "absolute path"]);
        let mut command = store.as_user(&["list"]);
        assert_refused(&command.env("HOME", home).output().unwrap(), 78, &["HOME", "--store URL"]);
    }
    assert!(!store.path("home").exists());
}

#[test]
fn error_of_a_foreign_or_unwritable_database_names_it() {
    let store = Store::new();
    let file = store.path("plain");
    fs::write(&file, "hello\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let url = format!("file:{}", file.display());
    let on = |url: &str, args: &[&str]| program().args(["-S", url]).args(args).output().unwrap();
    for args in
        [&["list"][..], &["inspect", "a"], &["run", "a", "--", "true"], &["check", "lk1.x.1.a"]]
    {
        assert_refused(&on(&url, args), 78, &[&url, "not a SQLite database"]);
        assert_refused(&on("file:/", args), 78, &["not the path of a file"]);
    }
    let folder = format!("file:{}", store.path("").display());
    assert_refused(&on(&folder, &["list"]), 78, &["is not a file"]);
    assert_eq!(store.code(&["run", "a", "--", "true"]), 0);
    let theirs = store.as_user(&["-S", &store.url(), "list"]).output().unwrap();
    if rustix::process::geteuid().is_root() {
        assert_refused(&theirs, 77, &["locks.db"]);
    } else {
        assert_eq!(theirs.status.code(), Some(0));
    }
}

#[test]
fn error_of_a_configuration_names_file_and_line() {
    let store = Store::new();
    for (text, pieces) in [
        ("x", &[":1: key with no value"][..]),
        ("owner = 5", &[":1: owner is not a text"]),
        ("require_store = \"yes\"", &[":1: require_store is neither true nor false"]),
        ("connect_timeout = \"x\"", &[":1: connect_timeout: \"x\" is not a duration"]),
        ("connect_timeout = 0", &[":1: connect_timeout: \"0\" is too short"]),
        ("stores = 5", &[":1: stores is not a table"]),
        ("[stores]\na = 5", &[":2: stores.a is not a table"]),
        ("[stores.a]", &[":1: stores.a has no url"]),
        ("[stores.\"a:b\"]\nurl = \"file:x\"", &[":1: the name of a store"]),
        ("[stores.a]\nurl = \"file:x\"\nurl = \"file:y\"", &[":3: duplicate key"]),
        ("[stores.a]\nurl = \"file:x\"\nnodes = []", &[":1: stores.a has both url and nodes"]),
    ] {
        fs::write(store.path("c.toml"), text).unwrap();
        let output =
            program().arg("--config").arg(store.path("c.toml")).arg("list").output().unwrap();
        assert_refused(&output, 78, &[pieces, &["c.toml"]].concat());
    }
}

#[test]
fn error_of_a_missing_choice_comes_before_a_required_store() {
    let store = Store::new();
    let config = store.path("c.toml");
    let stores = "[stores]\na.url = \"file:/a\"\nb.url = \"file:/b\"\n";
    for (first, required) in [("require_store = true\n", ""), ("", "1"), ("", "")] {
        fs::write(&config, format!("{first}{stores}")).unwrap();
        let mut command = program();
        command.arg("--config").arg(&config).arg("list").env("LOCKKEEPER_REQUIRE_STORE", required);
        let pieces = ["no store chosen: ", "c.toml names stores", "--store a, or default_store = "];
        assert_refused(&command.output().unwrap(), 78, &pieces);
    }
}

#[test]
fn error_of_a_parameter_shows_its_value_and_one_that_fits() {
    let store = Store::new();
    let on = |url: &str| program().args(["-S", url, "list"]).output().unwrap();
    for (parameter, pieces) in [
        ("ttl=x", ["ttl= of the store's URL must be a duration", "and is \"x\". Try: ttl=30s"]),
        ("epoch=600", ["a number from 0 to 511", "and is \"600\". Try: epoch=1"]),
    ] {
        assert_refused(&on(&format!("{}?{parameter}", store.url())), 78, &pieces);
    }
    assert_refused(&on("redis://h:99999"), 78, &["host 1", "the port 99999, and a port is"]);
    // In a file, a value may be a secret in the wrong line.
    let config = store.path("c.toml");
    for (key, value, pieces) in [
        ("ttl", "20 bananas", [":3: stores.a.ttl: ttl must be a duration", "Try: 30s"]),
        ("max_waiters", "few", [":3: stores.a.max_waiters: ", "Try: 1000"]),
    ] {
        fs::write(&config, format!("[stores.a]\nurl = \"file:x\"\n{key} = \"{value}\"\n")).unwrap();
        let output = program().arg("--config").arg(&config).arg("list").output().unwrap();
        assert_refused(&output, 78, &pieces);
        assert!(!stderr(&output).contains(value), "{}", stderr(&output));
    }
}

#[test]
fn error_of_a_command_that_cannot_start_says_why() {
    let store = Store::new();
    script(&store.path("lost"), "#!/no/such/interpreter\n");
    script(&store.path("plain"), "echo no first line\n");
    fs::write(store.path("data"), "").unwrap();
    for (command, code, pieces) in [
        ("./lost", 126, &["./lost: cannot execute", "interpreter"][..]),
        ("./plain", 126, &["./plain: cannot execute", "#!/bin/sh"]),
        ("./data", 126, &["./data: cannot execute", "chmod +x"]),
        ("/", 126, &["/: cannot execute"]),
        ("./none", 127, &["./none: command not found"]),
        ("", 127, &["\"\": command not found"]),
    ] {
        assert_refused(&store.output(&["run", "a", "--", command]), code, pieces);
    }
    // Whatever the error was, no lock is left held.
    assert_eq!(store.inspect("a")["state"], "free");
}

#[test]
fn error_behind_a_url_with_a_secret_keeps_its_colon() {
    let mut command = program();
    let output =
        command.arg("list").env("LOCKKEEPER_STORE", "mysql://h?password=hush").output().unwrap();
    assert_refused(&output, 78, &["mysql://h?password=***: this version"]);
    assert!(!stderr(&output).contains("hush"));
}

#[test]
fn error_of_a_store_without_a_scheme_suggests_the_url() {
    let on = |store: &str| program().args(["-S", store, "list"]).output().unwrap();
    for (store, remedy) in [
        ("/srv/app/locks.db", "Try: file:/srv/app/locks.db\n"),
        ("locks.db", "Try: file:locks.db\n"),
        ("localhost", "Try: a URL such as redis://10.0.0.5 or file:/var/lib/app/locks.db\n"),
        ("", "--store is empty, as where a variable is missing. Try: --store URL\n"),
    ] {
        let output = on(store);
        assert_refused(&output, 78, &[]);
        assert!(stderr(&output).ends_with(remedy), "{store}: {}", stderr(&output));
    }
}

#[test]
fn error_of_a_file_that_may_not_grow_names_the_store() {
    let store = Store::new();
    let line = format!(
        "ulimit -f 1; exec {} -S {} run a -- true",
        env!("CARGO_BIN_EXE_lockkeeper"),
        store.url()
    );
    let mut command = Command::new("sh");
    let output = command
        .args(["-c", &line])
        .env("LOCKKEEPER_CONFIG", "/dev/null")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let remedy =
        "Try: look for a full disk, or a limit of file size (ulimit -f); if the file was deleted, ";
    assert_refused(&output, 69, &[&store.url(), remedy]);
    // The command has the signal with its original action.
    assert_eq!(store.code(&["run", "a", "--", "sh", "-c", "kill -XFSZ $$"]), 128 + 25);
}

#[test]
fn what_is_most_likely_a_mistake_of_a_name_is_said() {
    let store = Store::new();
    let watch = store.start(&["watch", "de*ploy"]);
    let printed = watch.error_line();
    assert!(
        printed.contains(
            "\"de*ploy\" is the name of one lock here: only a * at the end stands for many"
        ),
        "{printed}"
    );
    let mut holder = store.start(&["--owner", "me@here", "run", "a", "--json", "--", "cat"]);
    holder.event("started");
    let leader = store.output(&["leader", "a"]);
    assert_eq!((leader.status.code(), stdout(&leader).as_str()), (Some(0), "\n"));
    assert!(
        stderr(&leader).contains("lock \"a\": me@here holds it and shows no value"),
        "{}",
        stderr(&leader)
    );
    assert_eq!(stderr(&store.output(&["-q", "leader", "a"])), "");
}

#[test]
fn error_of_an_impossible_store_has_a_remedy() {
    let on =
        |args: &[&str]| program().args(args).args(["run", "a", "--", "true"]).output().unwrap();
    // The remedy must not ask the user to change the rights of a device.
    assert_refused(
        &on(&["-S", "file:/dev/null"]),
        78,
        &["file:/dev/null is not a file. Try: the path of a file"],
    );
    let output = on(&["--create", "-S", "file:/proc/none/l.db"]);
    assert_refused(
        &output,
        78,
        &["cannot create the folder", "Try: mkdir -p of the folder, or another path"],
    );
    // This text may be a part of a password, so the error does not repeat it.
    let pieces =
        ["a port that is not a number from 1 to 65535. Try: HOST:PORT, or HOST for the usual port"];
    let output = on(&["-S", "redis://h:hunter2"]);
    assert_refused(&output, 78, &pieces);
    assert!(!stderr(&output).contains("hunter2"), "{}", stderr(&output));
    let output = on(&["-S", "redis://h?ca=/etc/passwd"]);
    assert_refused(&output, 78, &[": ca= needs TLS, and redis:// has none. Try: rediss://\n"]);
    assert_refused(
        &on(&["-S", "nosql://h"]),
        78,
        &["Try: etcd://HOST, redis://HOST or file:PATH\n"],
    );
}

#[test]
fn error_of_wide_permissions_says_where_to_waive_the_check() {
    let store = Store::new();
    fs::set_permissions(store.path(""), fs::Permissions::from_mode(0o777)).unwrap();
    let output = store.output(&["run", "a", "--", "true"]);
    assert_refused(
        &output,
        77,
        &["Try: chmod go-w ", ", or ?unsafe=permissions at the end of the URL"],
    );
    let waived = format!("{}?unsafe=permissions", store.url());
    assert_eq!(
        program().args(["-S", &waived, "run", "a", "--", "true"]).output().unwrap().status.code(),
        Some(0)
    );
}
