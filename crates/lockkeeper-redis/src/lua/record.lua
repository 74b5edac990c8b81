-- WHAT REDIS KEEPS OF A LOCK: the keys, which bytes mean what, and who writes them. This file
-- begins every script but SWAP. The guide to the other files is in ARCHITECTURE.md, "How to read
-- the scripts".
--
-- A line `local NAME=number` defines a constant. The library writes the number in the place of the
-- name, and leaves out comment lines, before it sends a script (`inlined` in layout/scripts.rs). As
-- a local that functions share, a constant would cost time in each call, and Lua allows a function
-- 60 of these: `write_changes` has 54 without the constants.
--
-- TERMS
--   claim      a request for the lock: of a waiter, or of a holder
--   line       the holders of a lock, then the queue of its waiters
--   token      the fencing token. A claim gets it when it joins the line, and keeps it.
--   life       for how long a holder's claim lives after its last renewal: ttl + lock delay. The
--              life of a waiter is `wait`.
--   tombstone  the id of a withdrawn claim. While it stands, a late copy of the request grants
--              nothing.
--   kept       said of a claim whose owner is gone, while its minimum hold still takes its weight
--
-- KEYS of the name n. They share a slot of a cluster. A script takes them in this order.
--   lk:{n}    line_key        string      one of the three forms below
--   lk:{n}:q  queue_key       sorted set  the ids of the waiters, by their tokens: the queue
--   lk:{n}:w  claims_key      hash        the record of each claim, holder or waiter, by its id
--   lk:{n}:g  tombstones_key  sorted set  the ids of withdrawn claims, by the end of the tombstone
-- Only the shared form gives `:q` and `:w` a meaning. Beside another form they hold leftovers,
-- which no script reads.
--
-- NUMBERS are little-endian: d is a float of 8 bytes, I4, I2 and B are unsigned integers of 4, 2
-- and 1 bytes. Times are µs of the server's clock, and durations are µs, where nothing else is
-- said. Offsets begin with 1.

-- FREE: nobody holds or waits, no tombstone stands, nobody observes.
--    1 last_token d   the highest token of this lock
-- The last claim that leaves writes it. The key stays at least for two days, and for as long as the
-- token is ahead of the clock.
local FREE_LENGTH=8

-- ALONE: one holder, which was granted at once; no waiter, tombstone, observer, amendment or
-- minimum hold.
--    1 last_token d   the holder's token
--    9 expires d
--   17 form B         ALONE
--   18 id c16
--   34 a claim's record, from `capacity` to the texts
-- The short way of CLAIM writes it. The short way of RENEW writes `expires`. Any other change makes
-- it SHARED or FREE.
local FORM=17
local ALONE=33
local ALONE_ID=18
-- A field of the record is so many bytes further back here ...
local ALONE_SHIFT=8
-- ... and so many bytes further in front in what CLAIM is sent: \33, id, and from `capacity` on the
-- record.
local SENT_SHIFT=8

-- SHARED: anything else. `write_changes` writes all bytes; a renewal may write bytes 9 to 25 alone.
--     1 last_token d
--     9 next_expiry d       no holder expires, and no kept claim ends, before this time; infinite
--                           without a holder
--    17 form B              SHARED: 16 times the number of the layout, plus the form
--    18 written_at d        not more than a second older than the last renewal: shows that the
--                           clock went back
--    26 waiters I4          how many wait; counts a waiter that died inside the queue until a
--                           script finds it
--    30 holders I4          how many hold, kept claims included
--    34 weight_held d       the sum of their weights
--    42 min_capacity I4     the smallest capacity that a holder declared
--    46 first_holder c16    the holder that was granted while nobody else held; zeros if it has
--                           left or has a minimum hold
--    62 tombstones_until d  the end of the last tombstone, or 0
--    70 observed_until d    until then the script publishes each change, or 0
--    78 swept_at d          when CLAIM last removed dead waiters, since the queue was full
--    86 longest_life d      ms: the longest life or minimum hold in this line; decides how long the
--                           keys stay
--    94 touched I4          counts amendments, evictions, requests, and claims that became kept
--    98 max_epoch I2        no live claim has a higher epoch
--   100 flags B             1 and 2: how observers receive changes; 4: a claim may be kept
--   101 max_capacity I4     the largest capacity that a holder declared
local SHARED=32
local SHARED_LENGTH=104
local OBSERVED_PLAIN=1
local OBSERVED_SHARDED=2
local MAY_KEEP=4

-- THE RECORD OF A CLAIM, in the hash; layout/claim.rs and layout/meta.rs write it from `capacity`
-- to the texts.
--    1 token d
--    9 expires d       CLAIM, RENEW: now + life, or now + wait for a waiter. A grant leaves it.
--   17 since d         when the claim joined the queue, or was granted
--   25 granted B       1: holds. 0: waits.
--   26 capacity I4     how much weight the lock may carry, as this claim declares it; EXCLUSIVE for
--                      a mutex
--   30 weight I4       how much of the capacity the claim takes. AMEND lowers it.
--   34 life d
--   42 wait I4         ms
--   46 length I4       of the shown part: from 50 to the words
--   50 client c8       the client that sent the claim last; names the channel of the client,
--                      lk:w:<client in hexadecimal>
--   58 delay I4        ms: how much of the life is the lock delay; the rest is the ttl
--   62 name_len B      not 0 if the key holds only the hash of the name
--   63 epoch I2
--   65 flags B         below
--   66 owner_len I2    68 reason_len I2   70 value_len I4
--   74 texts           name, owner, reason, value; if AMENDED the number of the last change d; if
--                      BROKEN or REQUESTED the words: length of who I2, length of why I2, who, why
-- Behind `length` bytes from 50 on:
--   without MIN_HOLD   the channel on which a waiter receives its grant, of the client that sent
--                      the claim last; nothing for a claim that was granted at once
--   with MIN_HOLD      end of the minimum hold d, its length d; if kept, the id c16 that the claim
--                      had
-- The field of a kept claim is not an id but its token d and `\0\0\0\0kept`. No client asks for
-- such an id.
local EXPIRES=9
local SINCE=17
local GRANTED=25
local CAPACITY=26
local WEIGHT=30
local LIFE=34
local LENGTH=46
local SHOWN=50
local CLIENT=50
local DELAY=58
local NAME_LEN=62
local EPOCH=63
local FLAGS=65
local OWNER_LEN=66
local VALUE_LEN=70
local TEXTS=74
local CHANGE_LENGTH=8
local EXCLUSIVE=4294967295

-- THE FLAGS OF A CLAIM. `flags%(2*X)>=X`: X is set. `flags%X`: the flags below X.
local REASON=1
local VALUE=2
-- AMEND has changed it.
local AMENDED=4
-- EVICT has marked it: no renewal extends it, so it ends with its life.
local BROKEN=8
-- REQUEST has asked its holder to release.
local REQUESTED=16
local MIN_HOLD=32

-- THE OPTIONS OF CLAIM: bits of a digit. layout/claim.rs writes them, and behind them `max_waiters`
-- I4 and the channel.
local DIGIT_0=48
-- It waits if it is not granted.
local QUEUE=1
-- An earlier copy of the request has no answer.
local RESEND=2
-- Its life is longer than a day.
local LONG=4
-- It takes the place of the caller's own claim.
local REPLACES=8
-- `s` before a channel: `SPUBLISH`. Else it is `p`: `PUBLISH`.
local SHARDED_CHANNEL=115

-- Above it not every whole number is a float.
local MAX_TOKEN=9007199254740992
local SECOND=1000000
local HOUR=3600000000
local DAY=86400000000
local DAY_MS=86400000
local TWO_DAYS_MS=172800000
-- store::TOMBSTONE_MIN
local TOMBSTONE_MIN_MS=60000
