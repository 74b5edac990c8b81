//! The statements on a real SQLite.

use proptest::prelude::*;
use rusqlite::{Connection, Transaction, TransactionBehavior, params_from_iter};

use super::*;
use crate::FencingToken;
use crate::fence::Marks;

struct Shop {
    folder: tempfile::TempDir,
    stock: FencedTable,
}

impl Shop {
    /// A shop with seven pieces of article 42.
    fn new() -> Self {
        let stock = FencedTable::new(Dialect::Sqlite, "stock", "id", "fence").unwrap();
        let shop = Self {
            folder: tempfile::tempdir().unwrap(),
            stock: stock.with_exclusive("fence_x").unwrap(),
        };
        let db = shop.connect();
        // STRICT, the strictest kind of table.
        db.execute_batch("CREATE TABLE stock (id INTEGER PRIMARY KEY, count INTEGER) STRICT")
            .unwrap();
        db.execute_batch("INSERT INTO stock VALUES (42, 7)").unwrap();
        shop.stock.add_columns().iter().for_each(|ddl| db.execute_batch(ddl).unwrap());
        shop
    }

    fn connect(&self) -> Connection {
        Connection::open(self.folder.path().join("shop.db")).unwrap()
    }
}

fn admitted(db: &Connection, access: Vec<Statement<i64>>) -> bool {
    let mut admitted = false;
    for statement in access {
        let mut query = db.prepare(&statement.sql).unwrap();
        admitted =
            query.query(params_from_iter(statement.params)).unwrap().next().unwrap().is_some();
    }
    admitted
}

fn begin(db: &mut Connection) -> Transaction<'_> {
    db.transaction_with_behavior(TransactionBehavior::Immediate).unwrap()
}

fn count(db: &Connection) -> i64 {
    db.query_row("SELECT count FROM stock WHERE id = 42", [], |row| row.get(0)).unwrap()
}

fn marks(db: &Connection, shop: &Shop) -> (i64, i64) {
    let look = shop.stock.look(42_i64);
    db.query_row(&look.sql, params_from_iter(look.params), |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
}

/// A sequencer of this mode and token.
fn grant(mode: Mode, token: u64) -> Sequencer {
    Sequencer::new("stock/42".parse().unwrap(), mode, FencingToken::new(0, token).unwrap())
}

#[test]
fn what_a_stopped_holder_does_late_is_refused_and_hinders_nobody() {
    let shop = Shop::new();
    let (mut a, mut b) = (shop.connect(), shop.connect());
    let (older, newer) = (grant(Mode::Exclusive, 33), grant(Mode::Exclusive, 34));

    let reading = begin(&mut a);
    assert!(admitted(&reading, shop.stock.open(42, &older).unwrap()));
    let seen_by_a = count(&reading);
    reading.commit().unwrap();

    // A is stopped, its lease ends, B takes over and only reads so far.
    let reading = begin(&mut b);
    assert!(admitted(&reading, shop.stock.open(42, &newer).unwrap()));
    let seen_by_b = count(&reading);
    reading.commit().unwrap();

    // A goes on: neither its planned write nor another read succeeds, and neither shuts out B.
    assert!(!admitted(&a, shop.stock.write(42, &older, &[("count", seen_by_a - 1)]).unwrap()));
    let reading = begin(&mut a);
    assert!(!admitted(&reading, shop.stock.open(42, &older).unwrap()));
    reading.rollback().unwrap();
    assert_eq!(marks(&b, &shop), (34, 34));

    // B's write is the second access with one token.
    assert!(admitted(&b, shop.stock.write(42, &newer, &[("count", seen_by_b - 1)]).unwrap()));
    assert!(
        admitted(&b, shop.stock.write(42, &newer, &[("count", seen_by_b - 1)]).unwrap()),
        "the same values again"
    );
    assert_eq!(count(&b), 6);
}

/// The lost update that the module documentation describes for resources that check only writes,
/// with the statements of the story above.
#[test]
fn without_the_check_of_reads_an_update_is_lost() {
    let shop = Shop::new();
    let (a, b) = (shop.connect(), shop.connect());
    let (seen_by_a, seen_by_b) = (count(&a), count(&b));
    assert!(admitted(
        &a,
        shop.stock.write(42, &grant(Mode::Exclusive, 33), &[("count", seen_by_a - 1)]).unwrap()
    ));
    assert!(admitted(
        &b,
        shop.stock.write(42, &grant(Mode::Exclusive, 34), &[("count", seen_by_b - 1)]).unwrap()
    ));
    assert_eq!(count(&a), 6, "two were sold, and one is missing");
}

#[test]
fn a_row_that_is_not_there_admits_nobody() {
    let shop = Shop::new();
    let db = shop.connect();
    assert!(!admitted(&db, shop.stock.open(43, &grant(Mode::Exclusive, 1)).unwrap()));
    let look = shop.stock.look(43_i64);
    assert!(!db.prepare(&look.sql).unwrap().exists(params_from_iter(look.params)).unwrap());
}

#[test]
fn a_misspelt_column_is_an_error_and_no_string() {
    let shop = Shop::new();
    let db = shop.connect();
    let wrong = FencedTable::new(Dialect::Sqlite, "stock", "idd", "fence").unwrap();
    for statement in wrong.open(42_i64, &grant(Mode::Exclusive, 1)).unwrap() {
        let error = db.prepare(&statement.sql).unwrap_err();
        assert!(error.to_string().contains("no such column: idd"), "{error}");
    }
}

#[test]
fn the_highest_token_fits() {
    let shop = Shop::new();
    let db = shop.connect();
    let highest = FencingToken::new(FencingToken::MAX_EPOCH, (1 << 54) - 1).unwrap();
    let holder = Sequencer::new("stock/42".parse().unwrap(), Mode::Exclusive, highest);
    assert!(admitted(&db, shop.stock.open(42, &holder).unwrap()));
    assert_eq!(marks(&db, &shop), (i64::MAX, i64::MAX));
    assert!(!admitted(&db, shop.stock.open(42, &grant(Mode::Exclusive, 34)).unwrap()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn the_statements_are_the_rule_of_the_gate(accesses in prop::collection::vec((any::<bool>(), 1_u64..8), 1..30)) {
        let shop = Shop::new();
        let mut db = shop.connect();
        let mut rule = Marks::default();
        // One transaction for all accesses: a commit of each would take long, and would show
        // nothing more.
        let transaction = begin(&mut db);
        for (reads, token) in accesses {
            let mode = if reads { Mode::Shared } else { Mode::Exclusive };
            let holder = grant(mode, token);
            let expected = rule.admit(mode, holder.token()).is_ok();
            prop_assert_eq!(admitted(&transaction, shop.stock.open(42, &holder).unwrap()), expected);
            let number = |mark: Option<FencingToken>| mark.map_or(0, FencingToken::as_i64);
            prop_assert_eq!(marks(&transaction, &shop), (number(rule.any), number(rule.exclusive)));
        }
    }
}
