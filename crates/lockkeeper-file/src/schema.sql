-- Version 11. Times are µs of CLOCK_BOOTTIME. After another start of the machine `boot.rs` writes
-- again those that still count.

-- One row with the facts about the whole file.
CREATE TABLE lk_meta (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    id      BLOB    NOT NULL,   -- 128 random bits, which distinguish this file from others
    floor   INTEGER NOT NULL,   -- a new lk_lock row issues no token at or below this one
    boot_id TEXT    NOT NULL,   -- the boot to which the times belong
    began_us INTEGER NOT NULL,  -- the date of that boot, as known at the last opening
    up_us   INTEGER NOT NULL,   -- a time of that boot at which the file was in use: an opening, or a close of a session
    synced  INTEGER NOT NULL DEFAULT 0   -- counts the transactions that only wait for the disk
) STRICT;

-- A name. Its last issued token is the higher one of its fence and the last place in its line: a
-- claim writes only itself, and its end writes its place here. A release never deletes the row.
CREATE TABLE lk_lock (
    name     BLOB    PRIMARY KEY,
    fence    INTEGER NOT NULL,
    revision INTEGER NOT NULL   -- changes with the line, together with the last token
) STRICT, WITHOUT ROWID;

-- Claims live and end with their session. Waiting claims live until wait_until_us, held ones until
-- hold_until_us + delay_us.
CREATE TABLE lk_session (
    id            TEXT    PRIMARY KEY,
    client        TEXT    NOT NULL,             -- the liveness file of the process that opened it
    detached      INTEGER NOT NULL,             -- 1: outlives that process, and a restart of the machine
    ttl_us        INTEGER NOT NULL,
    wait_ttl_us   INTEGER NOT NULL,
    delay_us      INTEGER NOT NULL,             -- the lock-delay with which it was opened; each claim has its own
    hold_until_us INTEGER NOT NULL,
    wait_until_us INTEGER NOT NULL,
    dead          INTEGER NOT NULL DEFAULT 0,   -- 1: its process was found dead
    wakes         INTEGER NOT NULL DEFAULT 0    -- removals of waiting claims, and before them
) STRICT, WITHOUT ROWID;
CREATE INDEX lk_session_client ON lk_session (client);
CREATE INDEX lk_session_ended ON lk_session (hold_until_us);

-- One claim in a line. The token is its place in the order.
CREATE TABLE lk_claim (
    name          BLOB    NOT NULL,
    ord           INTEGER NOT NULL,
    id            BLOB    NOT NULL,
    session       TEXT    NOT NULL,   -- '' for a kept claim, which has no holder
    weight        INTEGER NOT NULL,
    capacity      INTEGER NOT NULL,
    state         INTEGER NOT NULL,   -- 0 waiting, 1 granted without notice, 2 held, 3 kept
    delay_us      INTEGER NOT NULL,
    keep_until_us INTEGER NOT NULL,   -- the end of its minimum hold; 0: none
    since_us      INTEGER NOT NULL,
    until_us      INTEGER,            -- of a broken claim the latest end, of a kept claim the end
    owner         TEXT    NOT NULL,
    reason        TEXT,
    value         BLOB,
    epoch         INTEGER NOT NULL,
    change        INTEGER NOT NULL DEFAULT 0,   -- the number of the last change that was applied
    broken_by     TEXT,
    broken_reason TEXT,
    asked_by      TEXT,               -- the client that requests the lock
    asked_reason  TEXT,
    unlisted_us   INTEGER,            -- since when no renewal of its session has listed it, as far as somebody has looked
    lasts         INTEGER NOT NULL DEFAULT 0,   -- 1: it is kept, and its session was detached
    PRIMARY KEY (name, ord)
) STRICT, WITHOUT ROWID;
-- One index for both ways to look: every claim and every release writes a page of each.
CREATE UNIQUE INDEX lk_claim_session ON lk_claim (session, id);
CREATE INDEX lk_claim_not_held ON lk_claim (session, state) WHERE state < 2;
CREATE INDEX lk_claim_kept ON lk_claim (until_us) WHERE state = 3;
CREATE INDEX lk_claim_waiting ON lk_claim (name, ord) WHERE state = 0;

-- Tombstones: ids that were withdrawn while a copy of their claim could still arrive, or claims
-- that an operator removed at once. The operator is named for as long as the holder may take its
-- claim for valid.
CREATE TABLE lk_gone (
    id            BLOB    PRIMARY KEY,
    until_us      INTEGER NOT NULL,
    broken_by     TEXT,
    broken_reason TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX lk_gone_until ON lk_gone (until_us);

-- Ids of sessions that were closed. They are not opened again while a copy of their opening could
-- still arrive.
CREATE TABLE lk_closed (
    id       TEXT    PRIMARY KEY,
    until_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX lk_closed_until ON lk_closed (until_us);
