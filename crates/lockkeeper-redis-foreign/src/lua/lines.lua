-- What all operations share: the line of all holders, and then of all waiters.
--
-- A line is the last token, and for each holder: its owner, its life in ms (-1 for ever), the
-- weight that the layout shows, how long it has held the lock in microseconds, its record if it is
-- a client of lockkeeper, and how many permits the semaphore has (0 for other locks).
local function top_epoch() return tonumber(call('HGET',side,'e')) or 0 end
local function raise_epoch(epoch) if epoch>top_epoch() then call('HSET',side,'e',epoch) end end
local function line()
  local found,problem=owners()
  if not found then return nil,problem end
  local now,shown=micros(),{last_token()}
  for _,holder in ipairs(found) do
    -- In its last millisecond a key is there, and has a life of 0.
    if holder[2]>=-1 then
      local record=record_of(holder[1])
      shown[#shown+1]={holder[1],holder[2],holder[3],record and now-record[SINCE] or 0,record,
        holder[5] or 0}
    end
  end
  return shown
end
-- Removes the records of claims that have died and were never withdrawn. The record of a removal
-- stays for as long as the claim could have been renewed: SINCE is the time of the removal.
local function forget(now)
  -- Now and then, since it looks at all records.
  if call('HLEN',side)<16 or now%16~=0 then return end
  for _,of in ipairs(call('HKEYS',side)) do
    if #of>1 and not is_known(of) then
      local record=record_of(of)
      if now>record[SINCE]+record[TTL]+record[DELAY] then call('HDEL',side,of) end
    end
  end
end
