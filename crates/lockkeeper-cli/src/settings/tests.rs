//! The order of the sources, and the refused settings.

use std::ffi::OsString;

use super::*;
use crate::exit::Exit;

/// Without the configuration of the machine that runs the test.
fn resolve(global: &Global, variables: &[(&str, &str)]) -> Result<Settings, Failure> {
    let variables = [variables, &[("LOCKKEEPER_CONFIG", "/dev/null")]].concat();
    let environment = |name: &str| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    };
    Settings::resolve(global, &environment)
}

fn configured(
    config: &str,
    global: Global,
    variables: &[(&str, &str)],
) -> Result<Settings, Failure> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), config).unwrap();
    resolve(&Global { config: Some(file.path().to_owned()), ..global }, variables)
}

const CONFIG: &str = r#"
    default_store = "prod"
    owner = "of-config"
    connect_timeout = "9s"
    [stores]
    prod = { url = "redis://prod?ttl=7s", prefix = "prod/", ttl = "1h", password = "hunter2" }
    test = { url = "redis://test", ttl = "8s" }
    nodes = { nodes = ["redis://a", "redis://b", "redis://c"] }
"#;

#[test]
fn the_configuration_comes_after_the_url_and_before_the_default() {
    let settings = configured(CONFIG, Global::default(), &[]).unwrap();
    assert_eq!(settings.store.url.to_string(), "redis://:***@prod?prefix=prod/&ttl=7s");
    assert_eq!(settings.store.url.password.as_ref().unwrap().expose(), "hunter2");
    assert_eq!(
        (settings.store.ttl, settings.connect_timeout),
        (Duration::from_secs(7), Duration::from_secs(9))
    );
    assert_eq!((settings.owner.as_str(), settings.prefix), ("of-config", None));
    let variables = [
        ("LOCKKEEPER_STORE", "test"),
        ("LOCKKEEPER_OWNER", "o"),
        ("LOCKKEEPER_PASSWORD", "hunter2b"),
    ];
    let settings = configured(CONFIG, Global::default(), &variables).unwrap();
    assert_eq!((settings.store.ttl, settings.owner.as_str()), (Duration::from_secs(8), "o"));
    assert_eq!(settings.store.url.password.as_ref().unwrap().expose(), "hunter2b");
    let global = Global { connect_timeout: Some(Duration::from_secs(2)), ..store("prod") };
    let settings = configured(CONFIG, global, &variables).unwrap();
    assert_eq!(settings.connect_timeout, Duration::from_secs(2));
    assert_eq!(settings.store.url.password.as_ref().unwrap().expose(), "hunter2b");
    let settings = configured(CONFIG, store("file:x"), &[]).unwrap();
    assert_eq!(settings.store.url.to_string(), "file:x");
}

#[test]
fn a_name_that_no_store_has_is_refused_with_the_nearest() {
    let refused = |name: &str, config: &str| {
        let failure = configured(config, store(name), &[]).unwrap_err();
        assert_eq!(failure.exit, Exit::Config);
        failure.message
    };
    assert!(refused("prdo", CONFIG).ends_with("has no store \"prdo\". Try: prod"));
    assert!(refused("x", CONFIG).ends_with("Try: one of nodes, prod, test, or a URL"));
    assert!(
        refused("localhost", "")
            .ends_with("Try: a URL such as redis://10.0.0.5 or file:/var/lib/app/locks.db")
    );
    assert!(refused("/srv/l.db", "").ends_with("has no store \"/srv/l.db\". Try: file:/srv/l.db"));
    assert!(refused("l.db", CONFIG).ends_with("Try: file:l.db"));
    assert!(
        refused("nodes", CONFIG).contains(":8: a Redlock has one URL, and not a list of nodes")
    );
    let failure = configured("default_store = \"prod\"", Global::default(), &[]).unwrap_err();
    assert!(failure.message.starts_with("default_store of "), "{failure:?}");
}

#[test]
fn a_store_can_be_required_by_the_configuration() {
    let home = [("HOME", "/home/me")];
    let failure = configured("require_store = true", Global::default(), &home).unwrap_err();
    assert!(
        failure.exit == Exit::Config && failure.message.contains("and require_store of /"),
        "{failure:?}"
    );
    assert!(configured("require_store = false", Global::default(), &home).is_ok());
    for no in ["0", "false", "No"] {
        let lifted = [("HOME", "/home/me"), ("LOCKKEEPER_REQUIRE_STORE", no)];
        assert!(configured("require_store = true", Global::default(), &lifted).is_ok());
    }
}

#[test]
fn a_relative_path_in_the_configuration_is_warned_about() {
    let notice = |url: &str, global| {
        let config = format!("default_store = \"x\"\nstores.x.url = \"{url}\"");
        configured(&config, global, &[]).unwrap().notice()
    };
    assert!(
        notice("file:x.db", Global::default())
            .unwrap()
            .contains("file:x.db is another store in every")
    );
    assert_eq!(notice("file:x.db", Global { quiet: true, ..Global::default() }), None);
    assert_eq!(notice("file:/x.db", Global::default()), None);
}

fn store(url: &str) -> Global {
    Global { store: Some(url.to_owned()), ..Global::default() }
}

#[test]
fn a_flag_replaces_the_environment() {
    let variables =
        [("LOCKKEEPER_STORE", "file:env"), ("LOCKKEEPER_PREFIX", "p/"), ("LOCKKEEPER_OWNER", "o")];
    let settings = resolve(&Global::default(), &variables).unwrap();
    assert_eq!(settings.store.url.to_string(), "file:env");
    assert_eq!((settings.prefix.as_deref(), settings.owner.as_str()), (Some("p/"), "o"));
    let global =
        Global { name_prefix: Some(String::new()), owner: Some("me".into()), ..store("file:flag") };
    let settings = resolve(&global, &variables).unwrap();
    assert_eq!(settings.store.url.to_string(), "file:flag");
    assert_eq!((settings.prefix.as_deref(), settings.owner.as_str()), (Some(""), "me"));
}

#[test]
fn an_empty_owner_is_refused_and_an_empty_variable_counts_as_unset() {
    let global = Global { owner: Some(String::new()), ..store("file:x") };
    assert_eq!(resolve(&global, &[]).unwrap_err().exit, Exit::Usage);
    let failure = configured("owner = \"\"", store("file:x"), &[]).unwrap_err();
    assert!(failure.exit == Exit::Config && failure.message.starts_with("the owner is empty"));
    let settings = resolve(&store("file:x"), &[("LOCKKEEPER_OWNER", ""), ("USER", "me")]).unwrap();
    assert!(settings.owner.starts_with("me@"), "{}", settings.owner);
}

#[test]
fn a_password_may_be_only_in_the_environment() {
    let failure = resolve(&store("redis://:hunter2@h"), &[]).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage);
    assert!(!failure.message.contains("hunter2"));
    let settings =
        resolve(&Global::default(), &[("LOCKKEEPER_STORE", "redis://:hunter2@h")]).unwrap();
    assert!(!format!("{settings:?}").contains("hunter2"));
}

#[test]
fn what_cannot_be_a_store_is_a_matter_of_configuration() {
    for url in ["memory:", "MEMORY:"] {
        let settings = resolve(&store(url), &[]).unwrap();
        assert_eq!(settings.refuse_memory().unwrap_err().exit, Exit::Config, "{url:?}");
    }
    for url in ["prod", ""] {
        assert_eq!(resolve(&store(url), &[]).unwrap_err().exit, Exit::Config, "{url:?}");
    }
    let required = [("LOCKKEEPER_REQUIRE_STORE", "1"), ("HOME", "/home/me")];
    assert_eq!(resolve(&Global::default(), &required).unwrap_err().exit, Exit::Config);
    assert!(resolve(&store("file:x"), &required).is_ok());
}

#[test]
fn the_notice_is_for_the_default_store_only() {
    let home = [("HOME", "/home/me")];
    let notice = resolve(&Global::default(), &home).unwrap().notice().unwrap();
    assert!(notice.starts_with("no store configured; this lock holds "), "{notice}");
    assert!(
        notice.contains("on this host only (file:/")
            || notice.contains("in this container only (file:/")
    );
    assert_eq!(resolve(&store("file:x"), &home).unwrap().notice(), None);
    let quiet = Global { quiet: true, ..Global::default() };
    assert_eq!(resolve(&quiet, &home).unwrap().notice(), None);
}

#[test]
fn verbosity_follows_flag_then_variable() {
    let verbosity = |global: &Global, value| {
        resolve(global, &[("LOCKKEEPER_STORE", "file:x"), ("LOCKKEEPER_LOG", value)])
            .unwrap()
            .verbosity
    };
    assert_eq!(verbosity(&Global::default(), ""), Verbosity::Warnings);
    assert_eq!(verbosity(&Global::default(), "error"), Verbosity::Errors);
    assert_eq!(verbosity(&Global { quiet: true, ..Global::default() }, "debug"), Verbosity::Errors);
    assert_eq!(verbosity(&Global { verbose: 1, ..Global::default() }, "off"), Verbosity::Info);
}
