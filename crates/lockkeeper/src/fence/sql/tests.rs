//! The texts of the statements, and the refused settings.

use super::*;

fn sequencer(text: &str) -> Sequencer {
    text.parse().unwrap()
}

fn exclusive() -> Sequencer {
    sequencer("lk1.x.34.stock%2F42")
}

fn shared() -> Sequencer {
    sequencer("lk1.s.34.stock%2F42")
}

const KEY: i64 = 42;

fn texts(access: Vec<Statement<i64>>) -> Vec<(String, Vec<i64>)> {
    access.into_iter().map(|statement| (statement.sql, statement.params)).collect()
}

#[test]
fn an_access_to_postgresql_is_one_statement_with_numbered_parameters() {
    let stock = FencedTable::new(Dialect::Postgres, "shop.stock", "id", "fence").unwrap();
    assert_eq!(
        stock.add_columns(),
        [r#"ALTER TABLE "shop"."stock" ADD COLUMN "fence" BIGINT NOT NULL DEFAULT 0"#]
    );
    let open =
        r#"UPDATE "shop"."stock" SET "fence" = $1 WHERE "id" = $2 AND "fence" <= $3 RETURNING 1"#;
    assert_eq!(
        texts(stock.open(KEY, &exclusive()).unwrap()),
        [(open.to_owned(), vec![34, KEY, 34])]
    );
    let write = "UPDATE \"shop\".\"stock\" SET \"fence\" = $1, \"count\" = $2, \"user\" = $3 \
                 WHERE \"id\" = $4 AND \"fence\" <= $5 RETURNING 1";
    let written = stock.write(KEY, &exclusive(), &[("count", 7), ("user", 8)]).unwrap();
    assert_eq!(texts(written), [(write.to_owned(), vec![34, 7, 8, KEY, 34])]);
    let look = stock.look(KEY);
    assert_eq!(
        (&*look.sql, look.params),
        (r#"SELECT "fence" FROM "shop"."stock" WHERE "id" = $1"#, vec![KEY])
    );
}

#[test]
fn an_access_to_mysql_ends_with_a_look_at_what_is_current() {
    let stock = FencedTable::new(Dialect::MySql, "stock", "id", "fence").unwrap();
    assert_eq!(
        stock.add_columns(),
        ["ALTER TABLE `stock` ADD COLUMN `fence` BIGINT NOT NULL DEFAULT 0"]
    );
    let update = "UPDATE `stock` SET `fence` = ?, `count` = ? WHERE `id` = ? AND `fence` <= ?";
    let check = "SELECT 1 FROM `stock` WHERE `id` = ? AND `fence` <= ? FOR UPDATE";
    let written = stock.write(KEY, &exclusive(), &[("count", 7)]).unwrap();
    assert_eq!(
        texts(written),
        [(update.to_owned(), vec![34, 7, KEY, 34]), (check.to_owned(), vec![KEY, 34])]
    );
}

#[test]
fn readers_are_compared_with_writers_and_writers_with_all() {
    let stock = FencedTable::new(Dialect::MySql, "stock", "id", "fence")
        .unwrap()
        .with_exclusive("fence_x")
        .unwrap();
    assert_eq!(stock.add_columns().len(), 2);
    let raise = "UPDATE `stock` SET `fence` = CASE WHEN `fence` < ? THEN ? ELSE `fence` END \
                 WHERE `id` = ? AND `fence_x` <= ?";
    let check = "SELECT 1 FROM `stock` WHERE `id` = ? AND `fence_x` <= ? FOR UPDATE";
    let opened = texts(stock.open(KEY, &shared()).unwrap());
    assert_eq!(
        opened,
        [(raise.to_owned(), vec![34, 34, KEY, 34]), (check.to_owned(), vec![KEY, 34])]
    );
    let raise = "UPDATE `stock` SET `fence` = ?, `fence_x` = ? WHERE `id` = ? AND `fence` <= ?";
    assert_eq!(
        texts(stock.open(KEY, &exclusive()).unwrap())[0],
        (raise.to_owned(), vec![34, 34, KEY, 34])
    );
    assert_eq!(stock.look(KEY).sql, "SELECT `fence`, `fence_x` FROM `stock` WHERE `id` = ?");
}

#[test]
fn sqlite_never_reads_a_name_as_a_string() {
    let stock = FencedTable::new(Dialect::Sqlite, "order", "key", "fence").unwrap();
    assert_eq!(
        stock.add_columns(),
        ["ALTER TABLE `order` ADD COLUMN `fence` INTEGER NOT NULL DEFAULT 0"]
    );
    let open = "UPDATE `order` SET `fence` = ? WHERE `key` = ? AND `fence` <= ? RETURNING 1";
    assert_eq!(
        texts(stock.open(KEY, &exclusive()).unwrap()),
        [(open.to_owned(), vec![34, KEY, 34])]
    );
}

#[test]
fn only_plain_names_get_into_a_text() {
    let bad = [
        "",
        "1st",
        "a b",
        "a-b",
        "a;b",
        "a`b",
        "a\"b",
        "a'b",
        "a\\",
        "a\0",
        "ä",
        "a\n",
        "*",
        ".",
        "a.",
        ".a",
        "a.b.c",
        "stock; DROP TABLE stock",
        "stock` WHERE 1=1; --",
    ];
    let long = "a".repeat(64);
    for name in bad.into_iter().chain([&*long]) {
        for dialect in [Dialect::Sqlite, Dialect::Postgres, Dialect::MySql] {
            let stock = || FencedTable::new(dialect, "stock", "id", "fence").unwrap();
            let refused = [
                FencedTable::new(dialect, name, "id", "fence").unwrap_err(),
                FencedTable::new(dialect, "stock", name, "fence").unwrap_err(),
                FencedTable::new(dialect, "stock", "id", name).unwrap_err(),
                stock().with_exclusive(name).unwrap_err(),
                stock().write(KEY, &exclusive(), &[(name, 1)]).unwrap_err(),
            ];
            for error in refused {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                assert!(error.remedy().is_some() && !error.to_string().contains('\n'), "{error}");
            }
        }
    }
    FencedTable::new(Dialect::Postgres, &"a".repeat(63), "_id", "F1").unwrap();
    FencedTable::new(Dialect::Postgres, "stock", "a.b", "fence").unwrap_err();
}

#[test]
fn a_column_has_one_purpose() {
    let stock = || FencedTable::new(Dialect::Sqlite, "stock", "id", "fence").unwrap();
    FencedTable::new(Dialect::Sqlite, "stock", "id", "ID").unwrap_err();
    stock().with_exclusive("fence").unwrap_err();
    for values in [&[("Fence", 99)][..], &[("id", 1)], &[("count", 1), ("COUNT", 2)]] {
        let error = stock().write(KEY, &exclusive(), values).unwrap_err();
        assert!(error.to_string().contains("two purposes"), "{error}");
    }
}

#[test]
fn who_cannot_be_checked_is_refused() {
    let stock = FencedTable::new(Dialect::Sqlite, "stock", "id", "fence").unwrap();
    let error = stock.open(KEY, &shared()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().ends_with("Try: a second column (FencedTable::with_exclusive)"),
        "{error}"
    );
    let error =
        stock.with_exclusive("x").unwrap().open(KEY, &sequencer("lk1.p2.34.a")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("permits are held side by side"), "{error}");
}

#[test]
fn the_holder_of_a_read_lock_opens_and_does_not_write() {
    let stock = FencedTable::new(Dialect::Postgres, "stock", "id", "fence")
        .unwrap()
        .with_exclusive("fence_x")
        .unwrap();
    assert!(stock.open(KEY, &shared()).is_ok());
    let error = stock.write(KEY, &shared(), &[("count", 7)]).unwrap_err();
    assert_eq!(
        (error.kind(), error.name().map(|name| name.as_str())),
        (ErrorKind::Invalid, Some("stock/42"))
    );
}
