//! The blocks of code of a page.

use std::path::Path;

/// A block of code, and its position.
#[derive(Default)]
pub(super) struct Block {
    pub(super) language: String,
    pub(super) code: String,
    /// The page and the line, for messages.
    pub(super) location: String,
    /// How many headings came before.
    pub(super) section: usize,
    /// The comment before the block.
    pub(super) marker: String,
}

/// All blocks of a page, in their order.
pub(super) fn blocks(page: &str) -> Vec<Block> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (mut blocks, mut section, mut marker) = (Vec::new(), 0, String::new());
    let mut open: Option<Block> = None;
    for (number, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                let location = format!("{page}:{}", number + 1);
                let (language, marker) = (language.to_owned(), std::mem::take(&mut marker));
                open = Some(Block { language, location, section, marker, ..Block::default() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.code.push_str(line);
                block.code.push('\n');
                open = Some(block);
            }
            (None, None) => {
                section += usize::from(line.starts_with('#'));
                line.clone_into(&mut marker);
            }
        }
    }
    assert!(open.is_none(), "{page}: a block has no end");
    blocks
}

impl Block {
    /// Why the block is not run, if it is left out.
    pub(super) fn left_out(&self) -> Option<&str> {
        self.marker.strip_prefix("<!-- not run here: ")?.strip_suffix(" -->")
    }

    /// Whether the last command of the block goes on beside the following blocks.
    pub(super) fn goes_on(&self) -> bool {
        self.marker == "<!-- goes on -->"
    }

    /// The commands of lockkeeper in a file of another program, as a script.
    pub(super) fn embedded(&self) -> String {
        let (mut script, mut continued) = (String::new(), false);
        for line in self.code.lines() {
            if continued {
                script.push_str(line);
                script.push('\n');
            } else if let Some(command) = command(line) {
                script.push_str(&command);
                script.push('\n');
            } else {
                continue;
            }
            continued = line.ends_with('\\');
        }
        script
    }
}

/// The command in a line of a pipeline, a unit or a manifest.
fn command(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(list) = line.strip_prefix("command: ").filter(|list| list.starts_with('[')) {
        let words: Vec<String> =
            serde_json::from_str(list).unwrap_or_else(|error| panic!("{line}: {error}"));
        return words.first()?.ends_with("lockkeeper").then(|| {
            let quoted: Vec<String> =
                words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect();
            quoted.join(" ")
        });
    }
    let line = line.trim_start_matches("- ");
    let line =
        ["run: ", "ExecStart="].iter().find_map(|key| line.strip_prefix(key)).unwrap_or(line);
    let line = line.strip_prefix("/usr/local/bin/").unwrap_or(line);
    let is_command = line.split(' ').next().is_some_and(|word| !word.ends_with(':') && word != "#");
    (is_command && line.contains("lockkeeper ")).then(|| line.to_owned())
}
