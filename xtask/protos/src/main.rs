//! Makes the messages of etcd's API. They are committed, so that a build of lockkeeper needs no
//! `protoc`.

use std::path::Path;

use anyhow::{Context, Result};

const HEAD: &str = "// Made from proto/etcd.proto by xtask/protos/run. Not to be edited.\n";

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let library = root.join("crates/lockkeeper-etcd");
    let read = protox::compile(["etcd.proto"], [library.join("proto")]).context("proto/etcd.proto")?;
    let to = tempfile::tempdir()?;
    prost_build::Config::new().bytes(["."]).out_dir(to.path()).compile_fds(read)?;
    let made = std::fs::read_to_string(to.path().join("etcdserverpb.rs"))?;
    std::fs::write(library.join("src/wire/messages.rs"), format!("{HEAD}{made}"))?;
    Ok(())
}
