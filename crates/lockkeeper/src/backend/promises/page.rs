//! Writes `docs/stores.md`.

use super::Test::{Own, Suite};
use super::{OF_ALL, Promises, Test, suite, versions, words};
use crate::store::Driver;

const BEGIN: &str = "<!-- written by `cargo xtask tables`, up to the end -->\n";

/// The page with what follows the mark replaced.
pub(super) fn put_into(page: &str, generated: &str) -> String {
    let (by_hand, _) = page.split_once(BEGIN).expect("docs/stores.md has the mark");
    format!("{by_hand}{BEGIN}{generated}")
}

pub(super) fn generated(stores: &[&Promises]) -> String {
    let mut page = format!("\n{}\n{}\n{}\n{}", versions::generated(), in_short(stores), of_all(stores), urls(stores));
    for store in stores {
        page += &format!("\n{}", section(store));
    }
    page
}

fn in_short(stores: &[&Promises]) -> String {
    let head =
        ["store", "shared by", "locks", "forgets locks", "lock is free after a crash", "waiters", "tokens rise", "ttl"];
    let rows = stores.iter().map(|store| {
        let Promises { name, shared_by, forgets, killed_costs, .. } = store;
        let can = store.can();
        let (link, range) = (format!("[{name}](#{})", anchor(name)), words::range(can));
        let (kinds, waiting, tokens) = (words::kinds(can), words::waiting(can), words::tokens(can));
        [link.as_str(), shared_by, kinds, forgets, killed_costs, waiting, tokens, range.as_str()]
            .map(str::to_owned)
            .into()
    });
    format!("## In short\n\n{}", table(&head, rows))
}

/// The URLs, as the drivers have them.
fn urls(stores: &[&Promises]) -> String {
    let mut drivers: Vec<&Driver> = stores.iter().map(|store| store.driver).collect();
    drivers.dedup_by_key(|driver| driver.name);
    let code = |text: &str| format!("`{text}`");
    let rows = drivers.iter().map(|driver| {
        let schemes = driver.urls.schemes.iter().map(|scheme| match scheme.tls {
            Some(tls) => format!("`{}`, or `{tls}://` with TLS", scheme.shown),
            None => code(scheme.shown),
        });
        let checks = driver.urls.checks.iter().map(|check| code(check));
        let cells =
            [driver.name.to_owned(), schemes.collect::<Vec<_>>().join("; "), checks.collect::<Vec<_>>().join(", ")];
        cells.into()
    });
    let all = table(&["store", "URL", "`unsafe=` may name"], rows);
    let params = drivers.iter().flat_map(|driver| {
        driver.urls.params.iter().map(|param| {
            let only = param.only.map_or(String::new(), |end| format!(", `{end}` only"));
            vec![format!("{}{only}", driver.name), code(&format!("{}=", param.name)), capital(param.says) + "."]
        })
    });
    let params = table(&["store", "parameter", "value"], params);
    format!(
        "## URLs\n\n{all}\nEach store also takes `prefix=`, `epoch=`, `ttl=`, `max-waiters=` and `unsafe=`.\n\n{params}"
    )
}

fn of_all(stores: &[&Promises]) -> String {
    let rows = OF_ALL.iter().map(|(says, cases)| {
        let left_out = |store: &&&Promises| cases.iter().any(|case| suite::missing(case, store.can()).is_some());
        let without: Vec<_> = stores.iter().filter(left_out).map(|store| store.name).collect();
        let but = if without.is_empty() { String::new() } else { format!(" Not on {}.", without.join(", ")) };
        let cases: Vec<_> = cases.iter().map(|case| Suite(case)).collect();
        vec![format!("{says}{but}"), shown_by(&cases)]
    });
    let condition =
        "While the store keeps its state, and clocks run at rates that differ by less than the drift allowance:";
    format!("## What all of them promise\n\n{condition}\n\n{}", table(&["promise", "shown by"], rows))
}

fn section(store: &Promises) -> String {
    let can = store.can();
    let Promises { name, urls, needs, others, tokens, waking, killed, reported, happens, suites, more, .. } = store;
    let urls: Vec<_> = urls.iter().map(|url| format!("`{url}`")).collect();
    let mut section = format!("## {name}\n\n{}", urls.join(", "));
    if let Some(page) = more {
        section += &format!(": [{page}]({page})");
    }
    let row = |of: &str, says: &str, by: &[Test]| vec![of.to_owned(), says.to_owned(), shown_by(by)];
    let mut rows = vec![row("Needs", needs.says, needs.by), row("Other programs", others.says, others.by)];
    rows.extend(words::rows(can).iter().map(|(of, says, by)| row(of, says, by)));
    rows.push(row("Tokens", &format!("Rise {}. {}", words::tokens(can), tokens.says), tokens.by));
    rows.push(row("Waiters", &format!("{}. {}", capital(words::waiting(can)), waking.says), waking.by));
    rows.push(row("A killed holder", killed.says, killed.by));
    rows.push(row("A holder whose lock is broken", reported.says, reported.by));
    section += &format!("\n\n{}", table(&["", "promise", "shown by"], rows));
    let happens = happens.iter().map(|(what, shown)| row(what, shown.says, shown.by));
    section += &format!("\n{}", table(&["what happens", "what becomes of the locks", "shown by"], happens));
    section + &format!("\nIts suites: {}.\n", suites_of(suites))
}

/// `contract redis::redis_cluster::*`: the test program, and the tests as it prints them.
fn suites_of(suites: &[(&str, &[&str])]) -> String {
    let names = suites.iter().flat_map(|(file, modules)| {
        let mut parts = file.trim_end_matches(".rs").rsplit('/');
        let (harness, program) = (parts.next().unwrap_or(file), parts.next().unwrap_or(file));
        modules.iter().map(move |module| format!("`{program} {harness}::{module}::*`"))
    });
    names.collect::<Vec<_>>().join(", ")
}

fn shown_by(tests: &[Test]) -> String {
    let names = tests.iter().map(|test| match test {
        Suite(case) => format!("suite `{case}`"),
        Own(name) => format!("`{name}`"),
    });
    names.collect::<Vec<_>>().join(", ")
}

pub(super) fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut lines = vec![head.join(" | "), vec!["---"; head.len()].join("|")];
    lines.extend(rows.into_iter().map(|cells| cells.join(" | ")));
    let edge = |(at, line): (usize, &String)| if at == 1 { format!("|{line}|\n") } else { format!("| {line} |\n") };
    lines.iter().enumerate().map(edge).collect()
}

/// As GitHub makes it of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[test]
fn what_was_written_by_hand_stays() {
    let page = format!("by hand\n{BEGIN}old\n");
    assert_eq!(put_into(&page, "new\n"), format!("by hand\n{BEGIN}new\n"));
}

#[test]
fn a_heading_is_found_by_its_anchor() {
    assert_eq!(anchor("etcd, layout `concurrency`"), "etcd-layout-concurrency");
}
