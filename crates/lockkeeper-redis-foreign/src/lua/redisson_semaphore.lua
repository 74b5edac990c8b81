-- RPERMITEXPIRABLESEMAPHORE: a string with the number of free permits. KEYS: 4 a sorted set of the
-- permits that are held, 16 bytes each, by the time in milliseconds at which they end. A claim of
-- several permits has several ids, which follow one another.
local SHARED=true
local FOREVER=922337203685477
local NO_NUMBER='a string that is no number of permits'
-- Whether Redis can count on from it, and Lua keeps all its digits.
local function is_number(text)
  return text and #text<=15 and (text=='0' or string.match(text,'^%-?[1-9]%d*$')~=nil)
end
local function permit(of,number)
  if number==0 then return of end
  local last=struct.unpack('>I4',string.sub(of,13))
  return string.sub(of,1,12)..struct.pack('>I4',(last+number)%4294967296)
end
local function permits(of,record)
  local all={}
  for number=0,(record and record[WEIGHT] or 1)-1 do all[#all+1]=permit(of,number) end
  return all
end
local function each(list,act) for from=1,#list,500 do act(unpack(list,from,math.min(from+499,#list))) end end
local function stands(of)
  local ends=call('ZSCORE',more,of)
  -- With the number of permits its claims end.
  return ends and tonumber(ends)>micros()/1000 and call('GET',main) and true
end
local function is_known(of) return call('ZSCORE',more,of) and true end
local function free() return tonumber(call('GET',main) or '') end
-- Redisson lets so many waiters look, and fails at fewer than none.
local function wake() return send(math.max(free() or 0,0)) end
local function give_back(list)
  local given=0
  each(list,function(...) given=given+call('ZREM',more,...) end)
  -- The permits of a number that has ended belong to no later one.
  if given>0 and is_number(call('GET',main)) then call('INCRBY',main,given) end
  return given
end
-- Permits whose time is over are free again: the next client of any library says so.
local function reclaim(now)
  if give_back(call('ZRANGEBYSCORE',more,'-inf',math.floor(now/1000)))>0 then wake() end
end
local function note(field,number)
  call('HSET',side,field,number)
  if call('PTTL',side)==-1 then call('PEXPIRE',side,DAY) end
end
-- How many permits there are. As trySetPermits of Redisson, the first client sets the number. If
-- that was lockkeeper (`o` has what it has set), the next claim sets it once no permit is held.
local function number_for(capacity)
  local count,held=free(),call('ZCARD',more)
  local own=tonumber(call('HGET',side,'o') or '')
  if count and own~=count+held then return count+held end
  if count and (held>0 or own==capacity) then return own end
  -- Permits of an earlier number end one by one.
  call('SET',main,capacity-held)
  wake()
  note('o',capacity)
  note('c',held==0 and capacity or 0)
  return capacity
end
-- Whether claims of lockkeeper hold so few permits that each of them finds its number kept. The
-- string alone limits the clients of other libraries.
local function fits(weight,capacity)
  local sum=weight
  for _,of in ipairs(call('ZRANGE',more,0,-1)) do
    local record=record_of(of)
    if record then
      sum=sum+record[WEIGHT]
      capacity=math.min(capacity,record[CAPACITY])
    end
  end
  return sum<=capacity
end
-- The problem of a claim that gets nothing even if all permits are free.
local function too_few(weight)
  local number=free()+call('ZCARD',more)
  if number<weight and tonumber(call('HGET',side,'o') or '')~=number then
    return redis.error_reply('LKFEW '..number)
  end
end
local function take(of,life,weight,capacity)
  local now=micros()
  local count=call('GET',main)
  if count and not is_number(count) then return nil,NO_NUMBER end
  -- Without a number the sorted set may have the permits of another name: `a` and `{a}` share it.
  if count then reclaim(now) end
  local number=number_for(capacity)
  local problem=too_few(weight)
  if problem then return nil,problem end
  if free()<weight then return false end
  -- If all claims have named the number that there is, the string has it.
  local named=call('HGET',side,'c')
  if not named then note('c',capacity) end
  if named and tonumber(named)~=capacity or number>capacity then
    call('HSET',side,'c',0)
    if not fits(weight,capacity) then return false end
  end
  call('DECRBY',main,weight)
  local ends=math.ceil(now/1000+life)
  for at=0,weight-1 do call('ZADD',more,ends,permit(of,at)) end
  -- As Redisson does: the permits end with their number.
  local left=call('PTTL',main)
  if left>0 then call('PEXPIRE',more,left) end
  return true
end
local function prolong(of,life,record)
  local ends=math.ceil(micros()/1000+life)
  each(permits(of,record),function(...)
    for _,id in ipairs({...}) do call('ZADD',more,'XX',ends,id) end
  end)
end
local function drop(of)
  local is_live=stands(of)
  local given=give_back(permits(of,record_of(of)))
  if not is_live and given>0 then wake() end
  return is_live and given>0
end
local function lower(of,record,weight)
  local surplus={}
  for number=weight,record[WEIGHT]-1 do surplus[#surplus+1]=permit(of,number) end
  give_back(surplus)
end
local function owners()
  local found,parts,now={},{},micros()/1000
  local count=call('GET',main)
  if count and not is_number(count) then return nil,NO_NUMBER end
  if not count then return found end
  local held=call('ZRANGE',more,0,-1,'WITHSCORES')
  -- Permits whose time is over are in the set until they are given back.
  local number=math.max(count+#held/2,1)
  for i=1,#held,2 do
    local record=record_of(held[i])
    if record then for number=1,record[WEIGHT]-1 do parts[permit(held[i],number)]=true end end
  end
  for i=1,#held,2 do
    local ends=tonumber(held[i+1])
    if ends>now and not parts[held[i]] then
      found[#found+1]={held[i],ends<FOREVER and math.max(math.floor(ends-now),1) or -1,1,false,number}
    end
  end
  return found
end
local function adopt() end
