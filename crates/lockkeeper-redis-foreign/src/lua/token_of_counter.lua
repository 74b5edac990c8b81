-- RFENCEDLOCK: all clients of the layout count their grants in one counter. Redis must be able to
-- count on from it, and Lua to keep all its digits.
local function is_count(text)
  return #text<=15 and (text=='0' or string.match(text,'^[1-9]%d*$')~=nil)
end
local function last_token()
  local count=call('GET',more)
  return count and is_count(count) and tonumber(count) or 0
end
local function refusal()
  local count=call('GET',more)
  if count and not is_count(count) then
    return redis.error_reply('LKCOUNT a counter that is no number of up to 15 digits')
  end
end
local function next_token() return call('INCR',more) end
