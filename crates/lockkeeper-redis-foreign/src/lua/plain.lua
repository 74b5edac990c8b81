-- PLAIN: the simple lock, a string with the owner, made by SET NX PX.
local SHARED=false
local function stands(of) return call('GET',main)==of end
local function is_known(of) return call('GET',main)==of end
local function take(of,life) return call('SET',main,of,'NX','PX',life) and true end
local function too_few() end
local function prolong(of,life) call('PEXPIRE',main,life) end
local function drop(of) return call('GET',main)==of and call('DEL',main)==1 end
-- Other libraries do not listen, so a message is only for the waiters of lockkeeper.
local function wake()
  if is_awaited('w') then return redis.pcall(publish,channel,'0') end
end
-- One holder has the lock whatever its weight is.
local function lower() end
local function owners()
  if call('HEXISTS',side,'o')==1 then return nil,'the number of permits of a semaphore' end
  local found=call('GET',main)
  return found and {{found,call('PTTL',main),1}} or {}
end
local function adopt(life)
  if life>0 and call('PTTL',main)==-1 then call('PEXPIRE',main,life) end
end
