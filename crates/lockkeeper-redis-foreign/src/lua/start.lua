-- The beginning of all scripts; a file with the functions of the layout follows, then lines.lua and
-- the operation.
--
-- KEYS: 1 the lock's own key, as the other library names it; 2 the side key, which only lockkeeper
-- writes; 3 the tombstone of the claim; 4 and 5 further keys of the layout, if it has some.
-- ARGV: 1 the owner, as the lock's key holds it; 2 the channel; 3 PUBLISH or SPUBLISH.
--
-- The side key is a hash: `t` has the last token, `w` the time until which a client of lockkeeper
-- waits for a release, `f` that for a grant of a free lock, `e` the highest epoch, `c` the number
-- of permits that all claims have named so far, `o` the number of permits that lockkeeper has set,
-- and each longer field is an owner with its record. The lock's own key decides who holds the lock.
-- A record only adds what the layout of the other library has no place for, and a record whose
-- owner does not hold the lock is worthless.
--
-- Nothing is written before everything that may be of another type was read.
local call,unpack_record,pack_record=redis.call,cmsgpack.unpack,cmsgpack.pack
local main,side,gone,more,scores=KEYS[1],KEYS[2],KEYS[3],KEYS[4],KEYS[5]
local owner,channel,publish=ARGV[1],ARGV[2],ARGV[3]
-- The fields of a record. TTL, DELAY and WAIT are in microseconds. A claim that waits has the time
-- at which it ends in UNTIL.
local TOKEN,TTL,DELAY,WEIGHT,CAPACITY,CHANGE,SINCE,EPOCH=1,2,3,4,5,6,7,8
local SHOWN,REASON,VALUE,BREAKER,WHY,REMOVED,ASKER,ASKED=9,10,11,12,13,14,15,16
local WAIT,UNTIL=17,18
-- What a line shows as the weight of a waiter.
local WAITER=2
-- In milliseconds: the last token stays for so long after the last claim.
local DAY=86400000
-- One time for the whole script: what has not ended when it looks first has not ended later.
local time_now
local function micros()
  if not time_now then
    local time=call('TIME')
    time_now=time[1]*1000000+time[2]
  end
  return time_now
end
local function millis(micros) return math.ceil(micros/1000) end
local function life(record) return millis(record[TTL]+record[DELAY]) end
local function record_of(of)
  -- Another program may name itself `t`.
  local packed=#of>1 and call('HGET',side,of)
  return packed and unpack_record(packed)
end
-- Whether a client of lockkeeper waits for this message.
local function is_awaited(field)
  local waits=call('HGET',side,field)
  return waits and tonumber(waits)>micros()
end
-- Where ARGV begins to name readers whose strings are in KEYS.
local first=0
-- A text that may be missing: ARGV has a letter before each text that is there.
local function optional(text) return text~='' and string.sub(text,2) end
-- Why the layout gives no token of this name, if so.
local function refusal() end
-- A client of Redisson before 3.22, or with `shardedSubscriptionMode=OFF`, does not listen to the
-- shards of a Cluster.
-- Returns how many clients the message goes to, as far as this server knows.
local function send(message,to)
  local receivers=redis.pcall(publish,to or channel,message)
  if publish=='SPUBLISH' then redis.pcall('PUBLISH',to or channel,message) end
  return receivers
end
-- Reports the grant of a free lock to the clients of lockkeeper that watch it.
local function report_grant()
  if is_awaited('f') then redis.pcall(publish,side..':grants','1') end
end
-- An owner in the layouts of Redisson, whose hashes have no other field but `mode`.
local OWNER='^'..string.rep('%x',8)..string.rep('%-%x%x%x%x',4)..string.rep('%x',8)..':%-?%d'
local NO_OWNER='a hash with a field that is no UUID:THREAD'
local function is_owner(of) return string.find(of,OWNER)~=nil end
local function write(of,record) call('HSET',side,of,pack_record(record)) end
-- Always writes: a full server takes any command of a script that has begun to write.
local function remember(life) call('PEXPIRE',side,math.max(call('PTTL',side),life+DAY)) end
local function waits(record)
  return record and record[UNTIL] and record[UNTIL]>micros() and not record[BREAKER]
end
-- What only a layout with a queue does.
local function advance() end
local function report() end
local function queued() end
local function join() end
local function strange(what)
  return type(what)=='table' and what or redis.error_reply('LKF '..what)
end
