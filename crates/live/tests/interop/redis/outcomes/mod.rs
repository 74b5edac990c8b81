//! The table of docs/redlock-outcomes.md: Redlock under faults, lockkeeper's beside the others'.
//!
//! The test takes some minutes and measures times, so it runs with `--all` only:
//! `cargo xtask interop --all outcomes`.

mod faults;
mod world;

use self::world::{NO_ANSWER, World};
use super::kind::{Kind, NODE_REDLOCK, REDISSON_REDLOCK, REDSYNC, RSLOCK, US_REDLOCK};

/// The columns of the table.
const KINDS: [(&str, Kind); 5] = [
    ("lockkeeper", US_REDLOCK),
    ("redsync", REDSYNC),
    ("rslock", RSLOCK),
    ("node-redlock", NODE_REDLOCK),
    ("Redisson's RedLock", REDISSON_REDLOCK),
];

/// What no cell of lockkeeper's column says.
const WRONG: [&str; 3] = [faults::TWO_HOLDERS, faults::A_THIRD_HOLDER, NO_ANSWER];

/// A row of the table.
struct Row {
    fault: &'static str,
    servers: usize,
    /// The servers that fail in ways that need a proxy.
    behind_proxies: &'static [usize],
    /// Measures a cell.
    measure: fn(&mut World) -> String,
}

#[rustfmt::skip]
const ROWS: [Row; 10] = [
    Row { fault: "nothing fails", servers: 3, behind_proxies: &[], measure: faults::nothing },
    Row { fault: "one server refuses connections", servers: 3, behind_proxies: &[2], measure: faults::one_refuses },
    Row { fault: "one server is silent", servers: 3, behind_proxies: &[2], measure: faults::one_is_silent },
    Row { fault: "one server is 100 ms away", servers: 3, behind_proxies: &[2], measure: faults::one_is_slow },
    Row { fault: "two servers refuse connections", servers: 3, behind_proxies: &[1, 2], measure: faults::two_refuse },
    Row { fault: "one server forgets", servers: 3, behind_proxies: &[2], measure: faults::one_forgets },
    Row { fault: "the holder stands still", servers: 3, behind_proxies: &[], measure: faults::the_holder_stands_still },
    Row { fault: "the holder is killed", servers: 3, behind_proxies: &[], measure: faults::the_holder_is_killed },
    Row { fault: "8 clients, 3 servers", servers: 3, behind_proxies: &[], measure: faults::eight_clients },
    Row { fault: "8 clients, 4 servers", servers: 4, behind_proxies: &[], measure: faults::eight_clients },
];

#[test]
fn the_outcomes_of_faults_are_a_table() {
    if std::env::var_os("LOCKKEEPER_ALL").is_none() {
        println!("left out: the_outcomes_of_faults_are_a_table: it takes minutes; run with --all");
        return;
    }
    let columns: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
    println!("| fault | {} |", columns.join(" | "));
    println!("|---|{}", "---|".repeat(columns.len()));
    for Row { fault, servers, behind_proxies, measure } in ROWS {
        let cells = KINDS.map(|(name, kind)| {
            let cell = measure(&mut World::start(kind, servers, behind_proxies));
            eprintln!("{fault}: {name}: {cell}");
            cell
        });
        for wrong in WRONG {
            assert!(!cells[0].contains(wrong), "{fault}: {}", cells[0]);
        }
        let is_crowd = fault.starts_with("8 clients");
        assert!(!is_crowd || cells[0].ends_with(faults::ALL_DONE), "{fault}: {}", cells[0]);
        println!("| {fault} | {} |", cells.join(" | "));
    }
}
