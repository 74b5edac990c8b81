//! The page of one layout of a store, `docs/stores/NAME.md`: front matter, tables written by hand,
//! and a generated part.

use std::fs;

use lockkeeper::store::{Capabilities, Driver};

use super::{root, words};

pub(super) const FOLDER: &str = "docs/stores";

const BEGIN: &str = "<!-- written by `cargo xtask tables`, up to the end -->\n";

pub(super) struct Page {
    /// The path from the root of the repository.
    pub(super) file: String,
    pub(super) driver: &'static Driver,
    pub(super) layout: &'static str,
    text: String,
}

/// Every layout of every driver, in the order of the tables.
pub(super) fn layouts() -> Vec<(&'static Driver, &'static str)> {
    // A test of the drivers registers the driver `Shelf`.
    let drivers = lockkeeper::drivers().into_iter().filter(|driver| driver.name != "Shelf");
    drivers
        .flat_map(|driver| driver.layouts.iter().map(move |layout| (driver, layout.name)))
        .collect()
}

impl Page {
    /// The pages, in the order of [`layouts`].
    pub(super) fn all() -> Vec<Self> {
        let files = fs::read_dir(root().join(FOLDER)).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        let mut pages: Vec<_> = names.map(|name| Self::read(format!("{FOLDER}/{name}"))).collect();
        let order = layouts();
        pages.sort_by_key(|page| {
            order.iter().position(|(driver, layout)| page.is_of(driver, layout))
        });
        pages
    }

    fn read(file: String) -> Self {
        let text = fs::read_to_string(root().join(&file)).unwrap();
        let (driver, layout) = (field(&text, "driver"), field(&text, "layout").unwrap_or_default());
        let is_it = |(of, name): &(&Driver, &str)| Some(of.name) == driver && *name == layout;
        let found = layouts().into_iter().find(is_it);
        let (driver, layout) = found.unwrap_or_else(|| panic!("{file}: no driver has this layout"));
        Self { file, driver, layout, text }
    }

    fn is_of(&self, driver: &Driver, layout: &str) -> bool {
        std::ptr::eq(self.driver, driver) && self.layout == layout
    }

    pub(super) fn field(&self, key: &str) -> &str {
        field(&self.text, key).unwrap_or_else(|| panic!("{} does not say: {key}", self.file))
    }

    /// The file and the module of each suite.
    pub(super) fn suites(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = front(&self.text)
            .filter_map(|(key, modules)| Some((key.strip_prefix("suites in ")?, modules)));
        files.flat_map(|(file, modules)| modules.split(' ').map(move |module| (file, module)))
    }

    /// The capabilities of the layout.
    pub(super) fn can(&self) -> &'static Capabilities {
        let layout = self.driver.layouts.iter().find(|layout| layout.name == self.layout);
        layout.expect("the driver has the layout").capabilities
    }

    /// The rows of the tables written by hand.
    pub(super) fn rows(&self) -> Vec<Vec<&str>> {
        let (by_hand, _) = split(&self.text);
        let lines: Vec<_> = by_hand.lines().collect();
        let rows =
            lines.split(|line| !line.starts_with('|')).flat_map(|table| table.iter().skip(2));
        rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
    }

    pub(super) fn generated(&self) -> String {
        let can = self.can();
        let mut rows: Vec<_> = words::rows(can)
            .into_iter()
            .map(|(of, says, by)| vec![of.to_owned(), says, by.join(", ")])
            .collect();
        rows.push(vec![
            "Tokens".to_owned(),
            format!("Rise {}.", words::tokens(can)),
            String::new(),
        ]);
        rows.push(vec![
            "Waiters".to_owned(),
            format!("{}.", capital(words::waiting(can))),
            String::new(),
        ]);
        let suites: Vec<_> = self.suites().map(|(file, module)| suite(file, module)).collect();
        format!("\n{}\nIts suites: {}.\n", table(&["", "", "shown by"], rows), suites.join(", "))
    }
}

/// The pairs of name and value in the front matter.
fn front(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let front = text
        .strip_prefix("---\n")
        .and_then(|text| text.split_once("\n---\n"))
        .map(|(front, _)| front);
    front.unwrap_or_default().lines().filter_map(|line| line.split_once(": "))
}

fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    front(text).find(|(found, _)| *found == key).map(|(_, value)| value)
}

/// The cases of the suite that a cell names. `cargo xtask tidy` checks that the other tests exist.
pub(super) fn cases(cell: &str) -> impl Iterator<Item = &str> {
    cell.split("suite `").skip(1).filter_map(|rest| rest.split('`').next())
}

/// `lockkeeper-live matrix redis::redis_cluster::*`: the package, the test program, and the tests
/// as it prints them.
fn suite(file: &str, module: &str) -> String {
    let parts: Vec<_> = file.split('/').collect();
    let ["crates", folder, "tests", program, last] = parts[..] else {
        panic!("{file} is no file of a test program");
    };
    let package = if folder == "live" { "lockkeeper-live" } else { folder };
    let within = match last.trim_end_matches(".rs") {
        "main" => String::new(),
        module => format!("{module}::"),
    };
    format!("`{package} {program} {within}{module}::*`")
}

fn split(page: &str) -> (&str, &str) {
    page.split_once(BEGIN).expect("a page has the mark")
}

/// The page with the part after the mark replaced.
pub(super) fn put_into(page: &str, generated: &str) -> String {
    format!("{}{BEGIN}{generated}", split(page).0)
}

pub(super) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut lines = vec![head.join(" | "), vec!["---"; head.len()].join("|")];
    lines.extend(rows.into_iter().map(|cells| cells.join(" | ")));
    let edge = |(at, line): (usize, &String)| {
        if at == 1 { format!("|{line}|\n") } else { format!("| {line} |\n") }
    };
    lines.iter().enumerate().map(edge).collect()
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[test]
fn what_was_written_by_hand_stays() {
    let page = format!("by hand\n{BEGIN}old\n");
    assert_eq!(put_into(&page, "new\n"), format!("by hand\n{BEGIN}new\n"));
}

#[test]
fn a_page_is_read() {
    let text = "---\nname: X, y\nsuites in a/b.rs: one two\n---\n# X\nname: Z\n";
    assert_eq!((field(text, "name"), field(text, "layout")), (Some("X, y"), None));
    let found: Vec<_> = cases("suite `a::one_case`, `own::test`, suite `b::c`").collect();
    assert_eq!(found, ["a::one_case", "b::c"]);
    assert_eq!(suite("crates/x/tests/contract/main.rs", "tls"), "`x contract tls::*`");
    assert_eq!(
        suite("crates/live/tests/matrix/redis.rs", "tls"),
        "`lockkeeper-live matrix redis::tls::*`"
    );
}
