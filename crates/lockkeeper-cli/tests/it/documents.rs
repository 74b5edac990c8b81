//! Commands from the documents, read from the documents themselves.

use std::path::Path;

/// The blocks of code in this document, without their fences.
pub(crate) fn blocks(document: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(document);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blocks = text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
    blocks.map(|(_, code)| code.to_owned()).collect()
}

/// The only one that contains this.
pub(crate) fn block(document: &str, what: &str) -> String {
    let found: Vec<String> =
        blocks(document).into_iter().filter(|code| code.contains(what)).collect();
    let [block] = found.as_slice() else {
        panic!("{document} has another number of blocks with {what:?}: {found:#?}")
    };
    block.clone()
}

/// The sources below `folder`, as one text in which no string is broken into lines.
fn sources(folder: &Path, text: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            sources(&entry.path(), text);
        } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
            let lines = std::fs::read_to_string(entry.path()).unwrap();
            for line in lines.lines() {
                text.push_str(line.trim().strip_suffix('\\').unwrap_or(line));
            }
        }
    }
}

#[test]
fn the_documented_error_messages_are_those_that_are_printed() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut source = String::new();
    let is_shipped = |name: &str| name.starts_with("lockkeeper");
    for entry in std::fs::read_dir(&crates).unwrap().map(Result::unwrap) {
        if entry.file_name().to_str().is_some_and(is_shipped) {
            sources(&entry.path().join("src"), &mut source);
        }
    }
    let page = std::fs::read_to_string(crates.join("../docs/troubleshooting.md")).unwrap();
    let messages: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert!(messages.len() > 20, "{messages:?}");
    let unknown: Vec<_> = messages.iter().filter(|message| !source.contains(**message)).collect();
    assert!(unknown.is_empty(), "nothing prints these: {unknown:#?}");
}
