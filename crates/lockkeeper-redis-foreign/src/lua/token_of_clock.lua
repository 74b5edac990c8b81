-- Other clients of this layout take no tokens. So a token is the server's time in microseconds, or
-- one more than the last token of lockkeeper.
local function last_token() return tonumber(call('HGET',side,'t')) or 0 end
local function next_token(now)
  local token=math.max(last_token()+1,now)
  call('HSET',side,'t',token)
  return token
end
