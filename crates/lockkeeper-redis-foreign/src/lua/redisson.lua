-- RLOCK: a hash with one field, the owner and how often it holds the lock.
local SHARED=false
local function stands(of) return call('HEXISTS',main,of)==1 end
local is_known=stands
local function take(of,life)
  if call('EXISTS',main)==1 then return false end
  call('HSET',main,of,1)
  call('PEXPIRE',main,life)
  return true
end
local function too_few() end
local function prolong(of,life) call('PEXPIRE',main,life) end
local function drop(of) return call('HDEL',main,of)==1 end
local function wake() return send('0') end
-- One holder has the lock whatever its weight is.
local function lower() end
local function owners()
  -- An application may have a large hash of this name.
  if call('HLEN',main)>1 then return nil,'a hash of several fields, such as an RReadWriteLock' end
  local of=call('HKEYS',main)[1]
  if of and not is_owner(of) then return nil,NO_OWNER end
  return of and {{of,call('PTTL',main),1}} or {}
end
local function adopt() end
-- KEYS: 4 the counter of the tokens, if programs take the lock as an RFencedLock.
local function refusal()
  if call('EXISTS',more)==1 then return redis.error_reply('LKFENCED there is a counter of tokens') end
end
