-- The first write of a register makes this table, so that files without registers stay as they
-- were. Times mean nothing here, and another boot changes nothing. A key is never removed, so that
-- no version comes twice.
CREATE TABLE IF NOT EXISTS lk_register (
    key     TEXT    PRIMARY KEY,
    version INTEGER NOT NULL,   -- counts the writes of this key, from 1
    value   BLOB    NOT NULL,
    writers BLOB    NOT NULL    -- 16 bytes each: the writer of this version, of the one before it, and so on
) STRICT;
