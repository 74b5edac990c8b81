-- RFENCEDLOCK: all clients of the layout count their grants in one counter.
local function last_token() return tonumber(call('GET',more)) or 0 end
local function has_counter()
  local count=call('GET',more)
  return not count or string.match(count,'^%d+$')~=nil
end
local function next_token() return call('INCR',more) end
