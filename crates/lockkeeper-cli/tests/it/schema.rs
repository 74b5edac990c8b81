//! Compares the JSON output of the program with the schemas of the documents.

use std::collections::HashMap;

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

/// The schemas, by their names.
pub(crate) const ALL: [(&str, &str); 12] = [
    ("acquired", include_str!("../../../../docs/schema/acquired.json")),
    ("bench", include_str!("../../../../docs/schema/bench.json")),
    ("broken", include_str!("../../../../docs/schema/broken.json")),
    ("change", include_str!("../../../../docs/schema/change.json")),
    ("check", include_str!("../../../../docs/schema/check.json")),
    ("event", include_str!("../../../../docs/schema/event.json")),
    ("finding", include_str!("../../../../docs/schema/finding.json")),
    ("leader", include_str!("../../../../docs/schema/leader.json")),
    ("lock", include_str!("../../../../docs/schema/lock.json")),
    ("released", include_str!("../../../../docs/schema/released.json")),
    ("renewed", include_str!("../../../../docs/schema/renewed.json")),
    ("request", include_str!("../../../../docs/schema/request.json")),
];

thread_local! {
    static COMPILED: (Schemas, HashMap<&'static str, SchemaIndex>) = compiled();
}

fn compiled() -> (Schemas, HashMap<&'static str, SchemaIndex>) {
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    let indices = ALL.map(|(name, text)| {
        let at = format!("https://lockkeeper.invalid/schema/{name}.json");
        compiler.add_resource(&at, serde_json::from_str(text).unwrap()).unwrap();
        (name, compiler.compile(&at, &mut schemas).unwrap())
    });
    (schemas, indices.into())
}

/// Asserts that the value matches the schema of this name.
pub(crate) fn check(name: &str, value: &Value) {
    COMPILED.with(|(schemas, indices)| {
        let valid = schemas.validate(value, indices[name]);
        assert!(valid.is_ok(), "{name}: {value}: {}", valid.unwrap_err());
    });
}

/// The same for a value that may be a line of `run`, `elect` or `watch`.
pub(crate) fn check_event(value: &Value) {
    if value["event"].is_string() && value["time"].is_string() {
        let is_change = value.get("owner").is_some();
        check(if is_change { "change" } else { "event" }, value);
    }
}
