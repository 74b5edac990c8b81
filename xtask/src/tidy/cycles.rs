//! Cycles of files: files of one crate that use each other in a circle cannot be read, tested or
//! moved one by one.
//!
//! A file uses another file if it names an item that the other file defines. A re-export counts as
//! the file with the definition. So a `mod.rs` with only declarations and re-exports is in no
//! cycle.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::finding::Finding;
use super::source::Source;
use super::tokens::{CodePath, Stands, Token, paths};

/// How many files a cycle may have.
const LARGEST: usize = 5;

pub(crate) fn check(sources: &[Source]) -> Vec<Finding> {
    cycles(sources).iter().filter_map(|cycle| too_large(cycle)).collect()
}

/// The finding about a cycle with too many files.
pub(super) fn too_large(cycle: &[&str]) -> Option<Finding> {
    (cycle.len() > LARGEST).then(|| {
        let (count, files) = (cycle.len(), cycle.join(", "));
        let message = format!("{count} files use each other in a circle, {LARGEST} may: {files}");
        Finding::new(cycle[0], 1, message)
    })
}

/// The groups of two and more files that use each other, the largest first.
pub(super) fn cycles(sources: &[Source]) -> Vec<Vec<&str>> {
    let mut crates: BTreeMap<&str, Crate<'_>> = BTreeMap::new();
    for source in sources {
        if let Some((root, module)) = module(&source.path) {
            crates.entry(root).or_default().add(module, source);
        }
    }
    let mut found: Vec<Vec<&str>> = crates.values().flat_map(Crate::cycles).collect();
    found.sort_by_key(|cycle| (usize::MAX - cycle.len(), cycle[0]));
    found
}

/// The folder of a file's crate, and the file's module.
fn module(path: &str) -> Option<(&str, Vec<&str>)> {
    let (root, inside) = path.split_once("/src/")?;
    let mut module: Vec<&str> = inside.strip_suffix(".rs")?.split('/').collect();
    module.pop_if(|last| ["mod", "lib", "main"].contains(last));
    Some((root, module))
}

/// The files of a crate.
#[derive(Default)]
struct Crate<'a> {
    files: BTreeMap<Vec<&'a str>, File<'a>>,
}

struct File<'a> {
    path: &'a str,
    /// The words of the code, without `use` and `mod`.
    words: BTreeSet<&'a str>,
    paths: Vec<CodePath<'a>>,
}

/// The names that `use` gives to paths from the root of the crate, for one file; `None` for items
/// of another crate.
type Names<'a> = HashMap<&'a str, Option<Vec<&'a str>>>;

impl<'a> Crate<'a> {
    fn add(&mut self, module: Vec<&'a str>, source: &'a Source) {
        let tokens = source.tokens();
        let paths = paths(&tokens);
        self.files.insert(module, File { path: &source.path, words: words(&tokens), paths });
    }

    fn cycles(&self) -> Vec<Vec<&'a str>> {
        let names: BTreeMap<_, _> =
            self.files.iter().map(|(module, file)| (module, self.names(module, file))).collect();
        let uses = |(module, file): (&Vec<&'a str>, &File<'a>)| {
            let used = file.used(module, &names[module]);
            let used: BTreeSet<_> =
                used.into_iter().filter_map(|path| self.defining(path, &names)).collect();
            (file.path, used)
        };
        strongly_connected(&self.files.iter().map(uses).collect())
    }

    /// The names from the `use` items of a file, and the modules that the file declares.
    fn names(&self, module: &[&'a str], file: &File<'a>) -> Names<'a> {
        let mut names = Names::new();
        for child in self
            .files
            .keys()
            .filter(|child| child.len() == module.len() + 1 && child.starts_with(module))
        {
            names.insert(child[module.len()], Some(child.clone()));
        }
        for path in file.paths.iter().filter(|path| path.stands != Stands::Code) {
            let target = absolute(path, module, &names);
            let named = path.segments.iter().rev().find(|segment| **segment != "self").copied();
            let name = path.alias.or(named).filter(|name| *name != "*");
            names.extend(name.map(|name| (name, target)));
        }
        names
    }

    /// The file that defines the item at a path from the root. A module alone is not an item of the
    /// file.
    fn defining(
        &self,
        mut path: Vec<&'a str>,
        names: &BTreeMap<&Vec<&'a str>, Names<'a>>,
    ) -> Option<&'a str> {
        // A chain of re-exports is short; one in a circle does not compile.
        for _ in 0..8 {
            let depth =
                (0..=path.len()).rev().find(|depth| self.files.contains_key(&path[..*depth]))?;
            let module = path[..depth].to_vec();
            let item = path.get(depth)?;
            match names[&module].get(item) {
                Some(None) => return None,
                Some(Some(target)) if *target != path[..=depth] => {
                    path = target.iter().chain(&path[depth + 1..]).copied().collect();
                }
                _ => return self.files.get(&module).map(|file| file.path),
            }
        }
        None
    }
}

impl<'a> File<'a> {
    /// The paths from the root of all items that the file uses. A re-export alone is no use.
    fn used(&self, module: &[&'a str], names: &Names<'a>) -> Vec<Vec<&'a str>> {
        let is_used = |path: &&CodePath<'a>| {
            let name = path.alias.or(path.segments.last().copied());
            path.stands != Stands::Export || name.is_some_and(|name| self.words.contains(name))
        };
        self.paths.iter().filter(is_used).filter_map(|path| absolute(path, module, names)).collect()
    }
}

fn words<'a>(tokens: &[Token<'a>]) -> BTreeSet<&'a str> {
    let (mut words, mut in_use, mut before) = (BTreeSet::new(), false, "");
    for token in tokens {
        in_use = (in_use || token.text == "use") && token.text != ";";
        if !in_use && before != "mod" {
            words.insert(token.text);
        }
        before = token.text;
    }
    words
}

/// A path from the root of the crate; `None` for one that leads outside.
fn absolute<'a>(
    path: &CodePath<'a>,
    module: &[&'a str],
    names: &Names<'a>,
) -> Option<Vec<&'a str>> {
    let mut base: Vec<&str> = module.to_vec();
    let mut nested = path.nested;
    let mut segments = path.segments.iter().copied().peekable();
    match segments.next()? {
        "crate" => (base, nested) = (Vec::new(), 0),
        "self" => {}
        "super" if nested > 0 => nested -= 1,
        "super" => drop(base.pop()),
        name => base = names.get(name)?.clone()?,
    }
    while segments.next_if_eq(&"super").is_some() {
        match nested {
            0 => drop(base.pop()),
            _ => nested -= 1,
        }
    }
    base.extend(segments.filter(|segment| *segment != "self"));
    Some(base)
}

/// The groups of two and more that reach each other, by Tarjan's algorithm.
fn strongly_connected<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<Vec<&'a str>> {
    let mut search = Search { edges, seen: HashMap::new(), stack: Vec::new(), found: Vec::new() };
    for node in edges.keys() {
        if !search.seen.contains_key(node) {
            search.visit(node);
        }
    }
    search.found.retain(|group| group.len() > 1);
    search.found
}

struct Search<'e, 'a> {
    edges: &'e BTreeMap<&'a str, BTreeSet<&'a str>>,
    /// The number of each visited node, and whether the node still is on the stack.
    seen: HashMap<&'a str, (usize, bool)>,
    stack: Vec<&'a str>,
    found: Vec<Vec<&'a str>>,
}

impl<'a> Search<'_, 'a> {
    /// The lowest number that this node reaches.
    fn visit(&mut self, node: &'a str) -> usize {
        let number = self.seen.len();
        self.seen.insert(node, (number, true));
        self.stack.push(node);
        let mut lowest = number;
        for next in &self.edges[node] {
            match self.seen.get(next) {
                None => lowest = lowest.min(self.visit(next)),
                Some((earlier, true)) => lowest = lowest.min(*earlier),
                Some((_, false)) => {}
            }
        }
        if lowest == number {
            let begin = self.stack.iter().position(|on| *on == node).unwrap_or(0);
            let mut group = self.stack.split_off(begin);
            for member in &group {
                self.seen.entry(member).and_modify(|(_, on_stack)| *on_stack = false);
            }
            group.sort_unstable();
            self.found.push(group);
        }
        lowest
    }
}
