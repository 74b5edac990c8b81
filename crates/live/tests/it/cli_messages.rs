//! The message when a Redis cannot be used: one line with the store, without secrets, and with a
//! remedy.

use std::net::TcpListener;
use std::process::Output;
use std::time::{Duration, Instant};

use lockkeeper_live::{Certificates, Cluster, Redis, Sentinel};

use crate::support::{Store, program, stderr, stdout};

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
    for piece in pieces.iter().chain(&["Try: "]) {
        assert!(printed.contains(piece), "{piece:?} is missing: {printed}");
    }
    assert!(!printed.contains("hunter2") && stdout(output).is_empty(), "{printed}");
}

fn run(url: &str, password: Option<&str>) -> Output {
    let mut command = program();
    command.args(["-S", url, "--connect-timeout", "2s", "run", "job", "--", "true"]);
    command.envs(password.map(|password| ("LOCKKEEPER_PASSWORD", password))).output().unwrap()
}

#[test]
fn a_server_that_is_not_there_is_69() {
    let refused = run("redis://no-such-host.invalid", None);
    assert_refused(
        &refused,
        69,
        &["redis://no-such-host.invalid:6379", "its name was not found", "another host name"],
    );
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    assert_refused(
        &run(&format!("redis://{free}"), None),
        69,
        &[&free.to_string(), "refused", "lockkeeper doctor"],
    );
    // The port of another program: it accepts, and sends a text, or nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    assert_refused(
        &run(&format!("redis://{address}"), None),
        69,
        &[&address.to_string(), "did not answer"],
    );
    let store = Store::new();
    let _outage = store.outage();
    assert_refused(&run(&store.url(), None), 69, &[&store.url(), "did not answer within 2"]);
}

#[test]
fn a_server_that_does_not_let_us_in_is_77() {
    let server = Redis::builder()
        .password("hunter2")
        .user("app", "on >hunter2 ~lk:* &lk:* +info +ping")
        .user("blind", "on >hunter2 ~lk:* &lk:* +@all -info")
        .start()
        .unwrap();
    let url = format!("redis://{}", server.address());
    assert_refused(&run(&url, None), 77, &[&url, "asks for a password", "LOCKKEEPER_PASSWORD"]);
    assert_refused(&run(&url, Some("hunter3")), 77, &[&url, "WRONGPASS", "the right password"]);
    let user = |name: &str| url.replace("redis://", &format!("redis://{name}@"));
    assert_refused(&run(&user("nobody"), Some("hunter2")), 77, &[&url, "WRONGPASS"]);
    for resp in ["?resp=2", "?resp=3"] {
        assert_refused(&run(&format!("{url}{resp}"), None), 77, &[&url, "password"]);
        assert_refused(&run(&format!("{url}{resp}"), Some("hunter3")), 77, &[&url, "WRONGPASS"]);
        assert_eq!(run(&format!("{url}{resp}"), Some("hunter2")).status.code(), Some(0));
    }
    let weak = run(&user("app"), Some("hunter2"));
    assert_refused(
        &weak,
        77,
        &[&url, "NOPERM", "evalsha", "Try: lockkeeper doctor", ", which prints the rule"],
    );
    let blind = run(&user("blind"), Some("hunter2"));
    assert_refused(
        &blind,
        77,
        &[&url, "NOPERM", "info", "Try: lockkeeper doctor", ", which prints the rule"],
    );
}

/// Sentinels have passwords of their own.
#[test]
fn a_refusing_sentinel_is_distinguished_from_a_refusing_master() {
    let sentinel = Sentinel::builder()
        .replicas(0)
        .server(Redis::builder().password("hunter2"))
        .start()
        .unwrap();
    let (url, master) = (sentinel.url(), sentinel.servers()[0].address());
    let run = |url: &str| {
        let mut command = program();
        command.args(["--connect-timeout", "2s", "run", "job", "--", "true"]);
        // A URL with a password has no place on a command line.
        command.env("LOCKKEEPER_STORE", url).output().unwrap()
    };
    assert_eq!(run(&url).status.code(), Some(0));
    let refused = run(&url.replace("hunter2", "hunter3"));
    assert_refused(&refused, 77, &[&format!("{master} says WRONGPASS"), "Try: the right password"]);
    for sentinel in sentinel.sentinels() {
        sentinel.run(&["ACL", "SETUSER", "default", "resetpass", ">of-sentinels"]).unwrap();
    }
    let named = "the Sentinel 127.0.0.1:";
    let refused = run(&format!("{url}?sentinel-password=wrong"));
    assert_refused(&refused, 77, &[named, " says WRONGPASS", "Try: the right sentinel-password="]);
    let refused = run(&url.replace(":hunter2@", ""));
    assert_refused(
        &refused,
        77,
        &[named, " asks for a password (NOAUTH)", "Try: sentinel-password="],
    );
    assert_eq!(run(&format!("{url}?sentinel-password=of-sentinels")).status.code(), Some(0));
}

#[test]
fn a_sentinel_in_place_of_a_server_is_named_with_the_right_url() {
    let sentinel = Redis::builder().sentinel().start().unwrap();
    let address = sentinel.address();
    let (named, remedy) =
        (format!("{address} is a Sentinel. "), format!("Try: redis+sentinel://{address}/MASTER\n"));
    for url in [
        "redis://ADDRESS",
        "redis://ADDRESS/1?resp=2",
        "redis://ADDRESS?unsafe=rights",
        "redis+cluster://ADDRESS",
    ] {
        assert_refused(
            &run(&url.replace("ADDRESS", &address.to_string()), None),
            78,
            &[&named, &remedy],
        );
    }
}

#[test]
fn a_node_of_a_cluster_is_named_with_what_it_says() {
    let mut cluster = Cluster::builder().replicas(0).start().unwrap();
    let is_of_the_first = |name: &String| {
        let slot = cluster.slot_of(&format!("{{{name}}}")).unwrap();
        cluster.owner(slot).unwrap() == 0
    };
    let name = (0..).map(|number| format!("job-{number}")).find(is_of_the_first).unwrap();
    cluster.node(2).kill().unwrap();
    let first = &cluster.nodes()[0];
    let is_down =
        || first.query::<String>(&["CLUSTER", "INFO"]).unwrap().contains("cluster_state:fail");
    let began = Instant::now();
    while !is_down() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "it goes on without a part of the slots"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let output =
        program().args(["-S", &cluster.url(), "run", "-n", &name, "--", "true"]).output().unwrap();
    let (at, lock) = (first.address(), format!("lock {name:?}"));
    let (says, remedy) =
        (format!("{at} says CLUSTERDOWN "), format!("Try: redis-cli --cluster check {at}\n"));
    assert_refused(&output, 69, &[&lock, &says, &remedy]);
}

#[test]
fn a_password_that_nobody_asked_for_is_reported_where_it_matters() {
    let store = Store::new();
    let old = format!("{}?resp=2", store.url());
    assert_refused(
        &run(&old, Some("hunter2")),
        77,
        &[&store.url(), "without any password configured", "the server has none"],
    );
}

#[test]
fn a_server_that_locks_cannot_be_relied_on_is_78() {
    let master = Redis::start().unwrap();
    let replica = Redis::builder().replica_of(&master).start().unwrap();
    let url = replica.url();
    let of_master = format!("its master, {}", master.address());
    assert_refused(
        &run(&url, None),
        78,
        &[&url, "the server is a replica", &of_master, "unsafe=replica"],
    );
    master.set("maxmemory-policy", "volatile-ttl").unwrap();
    let url = master.url();
    let remedy = "Try: maxmemory-policy noeviction (by CONFIG SET, or in the settings of the provider); or unsafe=eviction";
    assert_refused(&run(&url, None), 78, &[&url, "volatile-ttl", remedy]);
    assert_eq!(run(&format!("{url}?unsafe=eviction"), None).status.code(), Some(0));
}

fn encrypted() -> Redis {
    Redis::builder().tls(Certificates::new().unwrap()).start().unwrap()
}

#[test]
fn tls_that_does_not_fit_says_what_to_change() {
    let server = encrypted();
    let certificates = server.certificates().unwrap();
    let url = format!("rediss://{}", server.address());
    let ca =
        |certificates: &Certificates| format!("{url}?ca={}", certificates.authority().display());
    assert_eq!(run(&ca(certificates), None).status.code(), Some(0));
    assert_refused(&run(&url, None), 69, &[&url, "invalid peer certificate", "ca=FILE"]);
    assert_refused(
        &run(&ca(&Certificates::new().unwrap()), None),
        69,
        &[&url, "invalid peer certificate", "ca=FILE"],
    );
    let elsewhere = format!("{}&server-name=elsewhere", ca(certificates));
    assert_refused(&run(&elsewhere, None), 69, &[&url, "\"elsewhere\"", "server-name=NAME"]);
    let plain = url.replace("rediss:", "redis:");
    assert_refused(&run(&plain, None), 69, &[&plain, "rediss:// instead of redis://"]);
    assert_refused(
        &run(&format!("{url}?ca=/no/such.pem"), None),
        78,
        &["/no/such.pem", "a PEM file"],
    );
    let key = format!("{url}?ca={}", certificates.server_key().display());
    assert_refused(&run(&key, None), 78, &["there is none in it"]);
    let ca_as_server = Certificates::with_an_authority_as_server().unwrap();
    let trusting = format!("ca={}", ca_as_server.authority().display());
    let careless = Redis::builder().tls(ca_as_server).start().unwrap();
    let refused = run(&format!("rediss://{}?{trusting}", careless.address()), None);
    let says = "its certificate is one of an authority (CA), and not one of a server (invalid peer certificate)";
    assert_refused(&refused, 69, &[says, "Try: a server certificate that is not a CA"]);
    let store = Store::new();
    let unencrypted = store.url().replace("redis:", "rediss:");
    let unencrypted = format!("{unencrypted}?ca={}", certificates.authority().display());
    let mut patient = program();
    patient.args(["-S", &unencrypted, "run", "job", "--", "true"]);
    assert_refused(
        &patient.output().unwrap(),
        69,
        &["TLS failed", "redis:// instead of rediss://"],
    );
}

/// Waiting does not change the signer of a certificate.
#[test]
fn a_certificate_that_is_refused_is_not_tried_again() {
    let (server, mutual) =
        (encrypted(), Redis::builder().mutual_tls(Certificates::new().unwrap()).start().unwrap());
    let trusting = |server: &Redis| {
        let authority = server.certificates().unwrap().authority();
        format!("rediss://{}?ca={}", server.address(), authority.display())
    };
    let other = format!(
        "rediss://{}?ca={}",
        server.address(),
        Certificates::new().unwrap().authority().display()
    );
    let elsewhere = format!("{}&server-name=elsewhere", trusting(&server));
    for url in [other, elsewhere, trusting(&mutual)] {
        let refused =
            program().args(["-S", &url, "--connect-timeout", "30s", "list"]).output().unwrap();
        assert_refused(&refused, 69, &["ertificate"]);
        assert!(!stderr(&refused).contains("tried for"), "{}", stderr(&refused));
    }
}

#[test]
fn a_try_that_gets_no_acknowledgement_says_what_to_do() {
    let store = Store::new();
    let url = format!("{}?min-replicas=1", store.url());
    for args in [&["-n"][..], &["-w", "0"]] {
        let mut command = program();
        let output = command
            .args(["-S", &url, "-q", "run", "job"])
            .args(args)
            .args(["--", "true"])
            .output()
            .unwrap();
        let pieces =
            ["lock \"job\"", "0 of 1 replicas have acknowledged", "Try: a look at the replicas"];
        assert_refused(&output, 69, &pieces);
    }
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_it() {
    let server = Redis::builder().mutual_tls(Certificates::new().unwrap()).start().unwrap();
    let certificates = server.certificates().unwrap();
    let trusting =
        format!("rediss://{}?ca={}", server.address(), certificates.authority().display());
    assert_refused(&run(&trusting, None), 69, &["CertificateRequired", "cert=FILE and key=FILE"]);
    let (cert, key) = (certificates.client(), certificates.client_key());
    let shown = format!("{trusting}&cert={}&key={}", cert.display(), key.display());
    assert_eq!(run(&shown, None).status.code(), Some(0));
    let other =
        format!("{trusting}&cert={}&key={}", cert.display(), certificates.server_key().display());
    assert_refused(&run(&other, None), 78, &["do not belong together"]);
    assert_refused(
        &run(&format!("{trusting}&cert={}", cert.display()), None),
        78,
        &["has cert= without key="],
    );
}

#[test]
fn a_database_that_is_not_there_is_78() {
    let store = Store::new();
    assert_refused(
        &run(&format!("{}/99", store.url()), None),
        78,
        &["/99", "DB index is out of range", "0 has every one"],
    );
    assert_refused(
        &run(&format!("{}/x", store.url()), None),
        78,
        &["the path is not the number of a database"],
    );
    assert_eq!(run(&format!("{}/3", store.url()), None).status.code(), Some(0));
}

#[test]
fn a_password_is_taken_from_everywhere_but_the_command_line() {
    let server = Redis::builder().password("hunter2").start().unwrap();
    let url = format!("redis://{}", server.address());
    let store = Store::new();
    let run = |variables: &[(&str, &str)], args: &[&str]| {
        let mut command = program();
        command.envs(variables.iter().copied()).args(args).args(["run", "job", "--", "true"]);
        command.output().unwrap()
    };
    let file = store.path("password");
    std::fs::write(&file, "hunter2\n").unwrap();
    assert_eq!(
        run(&[("LOCKKEEPER_PASSWORD_FILE", file.to_str().unwrap())], &["-S", &url]).status.code(),
        Some(0)
    );
    assert_eq!(run(&[("LOCKKEEPER_STORE", &server.url())], &[]).status.code(), Some(0));
    let config = store.path("config.toml");
    let text = format!(
        "default_store = \"prod\"\n[stores]\nprod = {{ url = \"{url}\", password_file = \"password\" }}\n"
    );
    std::fs::write(&config, text).unwrap();
    std::fs::set_permissions(&config, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(run(&[("LOCKKEEPER_CONFIG", config.to_str().unwrap())], &[]).status.code(), Some(0));
    assert_refused(&run(&[], &["-S", &server.url()]), 64, &["--store contains a password"]);
}
