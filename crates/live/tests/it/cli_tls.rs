//! The certificates that the program trusts.

use std::path::Path;
use std::process::Output;

use lockkeeper_live::{Certificates, redis_tls};

use crate::support::{program, stderr};

/// `SSL_CERT_FILE` names the certificates that the system trusts, for programs that ask the system.
#[test]
fn without_a_ca_file_the_systems_authorities_are_trusted() {
    let redis = redis_tls().unwrap();
    let run = |trusted: &Path| -> Output {
        let mut run = program();
        run.args(["-S", &redis.url(), "run", "a-lock-behind-tls", "--", "true"])
            .env("SSL_CERT_FILE", trusted);
        run.env_remove("SSL_CERT_DIR").output().unwrap()
    };
    let trusted = run(&redis.certificates().unwrap().authority());
    assert!(trusted.status.success(), "{trusted:?}");
    let refused = run(&Certificates::new().unwrap().authority());
    let said = stderr(&refused);
    assert_eq!(refused.status.code(), Some(69), "{said}");
    assert!(said.contains("invalid peer certificate") && said.contains("Try: ca=FILE"), "{said}");
}
