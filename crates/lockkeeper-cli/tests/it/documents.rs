//! What the documents tell people to type, read from the documents themselves.

use std::path::Path;

/// The blocks of code in this document, without their fences.
pub(crate) fn blocks(document: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    blocks.map(|(_, code)| code.to_owned()).collect()
}

/// The only one that contains this.
pub(crate) fn block(document: &str, what: &str) -> String {
    let found: Vec<String> = blocks(document).into_iter().filter(|code| code.contains(what)).collect();
    let [block] = found.as_slice() else { panic!("{document} has another number of blocks with {what:?}: {found:#?}") };
    block.clone()
}
