-- RREADWRITELOCK: a hash with `mode`, the readers, and the writer with `:write` behind it. Each
-- hold of a reader also has a string of its own life. KEYS: 4 the string of this claim.
local SHARED=true
local WRITE=':write'
-- In milliseconds: for less no waiter is woken.
local SLACK=100
local NO_MODE='a hash without a mode, such as an RLock'
-- 'w' for the writer, 'r' for a reader whose string is there, 'd' for a reader without.
local function held_as(of,string_of)
  local found=call('HMGET',main,of..WRITE,of)
  if found[1] then return 'w' end
  if found[2] then return call('EXISTS',string_of)==1 and 'r' or 'd' end
end
local function stands(of,string_of)
  local as=held_as(of,string_of or more)
  return as=='w' or as=='r'
end
local function is_known(of) return call('HEXISTS',main,of)==1 or call('HEXISTS',main,of..WRITE)==1 end
local function is_shorter(life) local left=call('PTTL',main) return left<life end
local function read_until(life)
  if is_shorter(life) then call('PEXPIRE',main,life) end
end
local function is_strange(field) return field~='mode' and not is_owner(field) end
local function take(of,life,weight)
  local mode=call('HGET',main,'mode')
  if mode and (weight~=1 or mode~='read') then return false end
  if not mode and call('EXISTS',main)==1 then return nil,NO_MODE end
  for _,field in ipairs(mode and call('HKEYS',main) or {}) do
    if is_strange(field) then return nil,NO_OWNER end
  end
  if weight==1 then
    call('HSET',main,'mode','read',of,1)
    call('SET',more,1,'PX',life)
    read_until(life)
  else
    call('HSET',main,'mode','write',of..WRITE,1)
    call('PEXPIRE',main,life)
  end
  return true
end
local function prolong(of,life)
  if call('HEXISTS',main,of..WRITE)==1 then return call('PEXPIRE',main,life) end
  -- A full server refuses SET.
  call('PEXPIRE',more,life)
  read_until(life)
end
local message='0'
local function wake() return send(message) end
-- How the last field but `mode` ends.
local function settle()
  if call('HLEN',main)==1 then call('DEL',main) return true end
  return false
end
local function drop(of,string_of)
  local as=held_as(of,string_of or more)
  if as=='w' then
    message='1'
    call('HDEL',main,of..WRITE)
    if not settle() then call('HSET',main,'mode','read') end
  elseif as then
    call('HDEL',main,of)
    call('DEL',string_of or more)
    -- Nobody publishes the release of a claim that has died, but this one may have been in the way.
    if settle() and as=='d' then wake() end
  end
  return as=='w' or as=='r'
end
-- KEYS from 5 on: the strings of the readers that ARGV from `first` on names. A reader that ARGV
-- does not name has the life of the whole lock.
local function owners()
  local found,left,own={},call('PTTL',main),{}
  if first>0 then
    for i=first,#ARGV do own[ARGV[i]]=call('PTTL',KEYS[5+i-first]) end
  end
  local mode=call('HGET',main,'mode')
  if mode and mode~='read' and mode~='write' or not mode and call('EXISTS',main)==1 then
    return nil,NO_MODE
  end
  if not mode then return found end
  local fields=call('HGETALL',main)
  for i=1,#fields,2 do
    local field=fields[i]
    if is_strange(field) then return nil,NO_OWNER end
    if field~='mode' then
      if string.sub(field,-#WRITE)==WRITE then
        found[#found+1]={string.sub(field,1,-#WRITE-1),left,0}
      else
        -- A reader that has entered several times has several strings.
        local life=fields[i+1]=='1' and own[field]
        found[#found+1]={field,life or left,1,life and life>0}
      end
    end
  end
  return found
end
-- Removes the readers that have died. If the life of each other reader is known, the longest one is
-- that of the lock: a writer of Redisson sleeps for so long. The scripts of Redisson do the same at
-- each release.
local function sweep()
  local dead,longest,all_known=0,0,true
  for i=first,#ARGV do
    local string_of,record=KEYS[5+i-first],record_of(ARGV[i])
    if record and call('PTTL',string_of)>life(record) then call('PEXPIRE',string_of,life(record)) end
  end
  for _,found in ipairs(owners() or {}) do
    if found[3]==1 and found[2]<-1 then
      call('HDEL',main,found[1])
      dead=dead+1
    elseif found[4] then
      longest=math.max(longest,found[2])
    else
      all_known=false
    end
  end
  if call('HGET',main,'mode')~='read' then return dead end
  if dead>0 and settle() then
    wake()
  elseif all_known and longest>0 and longest+SLACK<call('PTTL',main) then
    call('PEXPIRE',main,longest)
    wake()
  end
  return dead
end
local function too_few() end
local function lower(of,record)
  if call('HEXISTS',main,of..WRITE)==0 then return end
  local left=call('PTTL',main)
  call('HDEL',main,of..WRITE)
  call('HSET',main,'mode','read',of,1)
  call('SET',more,1,'PX',math.max(left,1))
  message='1'
end
local function adopt() end
