//! What the documents tell people to type, read from the documents themselves.

use std::path::Path;

/// The block of code in this document that contains this, without its fences.
pub(crate) fn block(document: &str, what: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    let found: Vec<&str> = blocks.map(|(_, code)| code).filter(|code| code.contains(what)).collect();
    assert_eq!(found.len(), 1, "{document} has another number of blocks with {what:?}: {found:#?}");
    found[0].to_owned()
}
