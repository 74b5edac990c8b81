-- What every script begins with: how it runs a command, and how it reads the key of a line.

local call,sub,byte,decode,encode=redis.call,string.sub,string.byte,struct.unpack,struct.pack

-- Runs a command that a full server may refuse although the command frees memory, or needs none
-- that counts. `key` is any declared key. A server refuses such commands only until the script has
-- written. So after a refusal the script removes a member that does not exist from `key`, which is
-- a write that changes nothing, and runs the command again. On a key of another type that removal
-- is an error, and counts as well. Any other reason for the refusal comes back from the second run.
-- Renewals and releases use this, so held locks live on and end on a full server.
local function even_if_full(key,...)
  local reply=redis.pcall(...)
  if type(reply)=='table' and reply.err then
    redis.pcall('ZREM',key,'')
    return call(...)
  end
end

-- Runs a command that a full server is to refuse. Takes the same arguments as even_if_full().
local function if_not_full(_,...) return call(...) end

-- Runs a command of the writing half of write_changes(). The script has tried each of them before,
-- so none fails. If one fails nevertheless, half of the change is done: the error says so, and the
-- client treats the effect as unknown.
local function must(...)
  local reply=redis.pcall(...)
  if type(reply)=='table' and reply.err then error('lockkeeper half-way ('..reply.err..')',0) end
end

-- Runs `command key` with the items of `list`, from index `from` on, 1000 at a time: Lua's stack
-- has a limit.
local function in_batches(command,key,list,from)
  for i=from,#list,1000 do must(command,key,unpack(list,i,math.min(i+999,#list))) end
end

-- Runs `operation` on one line of several. An error becomes the answer about this line, and the
-- other lines go on. wire/error.rs removes the prefix.
local function isolated(operation,...)
  local done,result=pcall(operation,...)
  if done then return result end
  return {err=type(result)=='table' and result.err or 'ERR Error running script: '..result}
end

-- The form of what the key of a line holds; nothing for FREE, which has no such byte.
local function form_of(stored) return byte(stored,FORM) end

-- Returns what the key of a line holds, in one of the three forms, or nothing. Fails for any other
-- value, before the script has changed anything: a script never misreads a layout that it does not
-- know, and never overwrites a foreign value. The error names the number of the layout. It is 0 for
-- a value that no version of lockkeeper has written. Each layout begins with the last token, a
-- whole number, so an older version can distinguish a newer layout from a foreign value.
local function read_line(line_key)
  local stored=redis.pcall('GET',line_key)
  if not stored then return stored end
  if type(stored)=='table' then
    if not string.find(stored.err,'wrong kind of value',1,true) then return call('GET',line_key) end
    error('lockkeeper layout 0 (a value that is no string)',0)
  end
  local last_token,form=#stored>=FREE_LENGTH and decode('<d',stored) or -1,form_of(stored)
  local ours=last_token>=0 and last_token<=MAX_TOKEN and last_token%1==0
  if ours and (#stored==FREE_LENGTH
    or form==ALONE and #stored>=TEXTS+ALONE_SHIFT-1
      and decode('<I4',stored,LENGTH+ALONE_SHIFT)==#stored-(SHOWN+ALONE_SHIFT-1)
    or form==SHARED and #stored==SHARED_LENGTH) then return stored end
  local layout=ours and form and math.floor(form/16) or 0
  error('lockkeeper layout '..(layout==2 and 0 or layout)..' (a string of '..#stored..' bytes)',0)
end

