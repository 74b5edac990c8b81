//! Writes the generated part of `docs/stores.md`.

use lockkeeper::store::Driver;

use super::page::{Page, capital, table};
use super::{OF_ALL, suite, words};

pub(super) fn generated(pages: &[Page]) -> String {
    format!("\n{}\n{}\n{}", in_short(pages), of_all(pages), urls(pages))
}

fn in_short(pages: &[Page]) -> String {
    let head = [
        "store",
        "shared by",
        "locks",
        "forgets locks",
        "lock is free after a crash",
        "waiters",
        "tokens rise",
        "ttl",
    ];
    let rows = pages.iter().map(|page| {
        let (can, link) = (page.can(), page.file.trim_start_matches("docs/"));
        vec![
            format!("[{}]({link})", page.field("name")),
            page.field("shared by").to_owned(),
            words::kinds(can).to_owned(),
            page.field("forgets locks").to_owned(),
            page.field("lock is free after a crash").to_owned(),
            words::waiting(can).to_owned(),
            words::tokens(can).to_owned(),
            words::range(can),
        ]
    });
    let all = "The page of a store has all that it promises, and what becomes of its locks when something happens.";
    format!("## In short\n\n{}\n{all}\n", table(&head, rows))
}

/// The URLs, from the drivers.
fn urls(pages: &[Page]) -> String {
    let mut drivers: Vec<&Driver> = pages.iter().map(|page| page.driver).collect();
    drivers.dedup_by_key(|driver| driver.name);
    let code = |text: &str| format!("`{text}`");
    let rows = drivers.iter().map(|driver| {
        let schemes = driver.urls.schemes.iter().map(|scheme| match scheme.tls {
            Some(tls) => format!("`{}`, or `{tls}://` with TLS", scheme.shown),
            None => code(scheme.shown),
        });
        let checks = driver.urls.checks.iter().map(|check| code(check));
        let cells = [
            driver.name.to_owned(),
            schemes.collect::<Vec<_>>().join("; "),
            checks.collect::<Vec<_>>().join(", "),
        ];
        cells.into()
    });
    let all = table(&["store", "URL", "`unsafe=` may name"], rows);
    let params = drivers.iter().flat_map(|driver| {
        driver.urls.params.iter().map(|param| {
            let only = param.only.map_or(String::new(), |end| format!(", `{end}` only"));
            vec![
                format!("{}{only}", driver.name),
                code(&format!("{}=", param.name)),
                capital(param.says) + ".",
            ]
        })
    });
    let params = table(&["store", "parameter", "value"], params);
    format!(
        "## URLs\n\n{all}\nEach store also takes `prefix=`, `epoch=`, `ttl=`, `max-waiters=` and `unsafe=`.\n\n{params}"
    )
}

fn of_all(pages: &[Page]) -> String {
    let rows = OF_ALL.iter().map(|(says, cases)| {
        let left_out =
            |page: &&Page| cases.iter().any(|case| suite::missing(case, page.can()).is_some());
        let without: Vec<_> =
            pages.iter().filter(left_out).map(|page| page.field("name")).collect();
        let but = if without.is_empty() {
            String::new()
        } else {
            format!(" The suite has no case of it for {}.", without.join("; "))
        };
        let cases: Vec<_> = cases.iter().map(|case| format!("suite `{case}`")).collect();
        vec![format!("{says}{but}"), cases.join(", ")]
    });
    let condition = "While the store keeps its state, and clocks run at rates that differ by less than the drift allowance:";
    format!(
        "## What all of them promise\n\n{condition}\n\n{}",
        table(&["promise", "shown by"], rows)
    )
}
