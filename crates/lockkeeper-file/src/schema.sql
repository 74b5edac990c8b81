-- Version 7. Times are µs of CLOCK_BOOTTIME, and mean nothing after another start of the machine.

-- One row: what holds for the whole file.
CREATE TABLE lk_meta (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    floor   INTEGER NOT NULL,   -- no lk_lock row that is made anew gives a token at or below this one
    boot_id TEXT    NOT NULL,   -- of the start of the machine that the times belong to
    began_us INTEGER NOT NULL   -- the date of that start, as it was known when the file was opened last
) STRICT;

-- A name. The last token that it gave out is the higher one of its fence and the last place in its line: a claim writes
-- only itself, and its end writes its place here. Never deleted by a release.
CREATE TABLE lk_lock (
    name     BLOB    PRIMARY KEY,
    fence    INTEGER NOT NULL,
    revision INTEGER NOT NULL   -- plus the last token it changes whenever the line does; only compared
) STRICT, WITHOUT ROWID;

-- What claims live and die with. Waiting claims live until wait_until_us, held ones until hold_until_us + delay_us.
CREATE TABLE lk_session (
    id            TEXT    PRIMARY KEY,
    client        TEXT    NOT NULL,             -- the liveness file of the process that opened it
    detached      INTEGER NOT NULL,             -- 1: outlives that process
    ttl_us        INTEGER NOT NULL,
    wait_ttl_us   INTEGER NOT NULL,
    hold_until_us INTEGER NOT NULL,
    wait_until_us INTEGER NOT NULL,
    dead          INTEGER NOT NULL DEFAULT 0,   -- 1: its process was found dead, and both lives were cut short
    wakes         INTEGER NOT NULL DEFAULT 0    -- counts how often something before or of its waiting claims was removed
) STRICT, WITHOUT ROWID;
CREATE INDEX lk_session_client ON lk_session (client);
CREATE INDEX lk_session_ended ON lk_session (hold_until_us);

-- One claim in a line. Its place in the order is its token.
CREATE TABLE lk_claim (
    name          BLOB    NOT NULL,
    ord           INTEGER NOT NULL,
    id            BLOB    NOT NULL,
    session       TEXT    NOT NULL,   -- '' when it is kept: nobody has it
    weight        INTEGER NOT NULL,
    capacity      INTEGER NOT NULL,
    state         INTEGER NOT NULL,   -- 0 waits; 1 granted, and its client has not heard of it; 2 held; 3 kept
    delay_us      INTEGER NOT NULL,
    keep_until_us INTEGER NOT NULL,   -- a granted claim that ends before this time is kept until then; 0: none is
    since_us      INTEGER NOT NULL,
    until_us      INTEGER,            -- set when it was broken: it ends then at the latest; and when it is kept: until then
    owner         TEXT    NOT NULL,
    reason        TEXT,
    value         BLOB,
    epoch         INTEGER NOT NULL,
    broken_by     TEXT,
    broken_reason TEXT,
    asked_by      TEXT,               -- who asks its holder to let go
    asked_reason  TEXT,
    PRIMARY KEY (name, ord)
) STRICT, WITHOUT ROWID;
-- One index for both ways to look: every claim and every release writes a page of each.
CREATE UNIQUE INDEX lk_claim_session ON lk_claim (session, id);
CREATE INDEX lk_claim_not_held ON lk_claim (session, state) WHERE state < 2;
CREATE INDEX lk_claim_kept ON lk_claim (until_us) WHERE state = 3;
CREATE INDEX lk_claim_waiting ON lk_claim (name, ord) WHERE state = 0;

-- Tombstones: ids that were withdrawn while a copy of their claim could still arrive, or removed at once by somebody,
-- who is named for as long as the holder may believe in its claim.
CREATE TABLE lk_gone (
    id            BLOB    PRIMARY KEY,
    until_us      INTEGER NOT NULL,
    broken_by     TEXT,
    broken_reason TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX lk_gone_until ON lk_gone (until_us);
