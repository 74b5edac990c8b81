-- WITHDRAW: removes a claim from one node. The counter stays.
-- KEYS: line, tombstone, lk:born, waiters. ARGV: id, how long late copies are refused, in ms, who
-- removes the claim and why, if an administrator does.
local id,lasts=ARGV[1],tonumber(ARGV[2])
local mark=sub(id,1,8)
local line,wrong=read_line(KEYS[1])
-- A full server refuses SET, unless the script has written before.
if line then
  local claim='h'..id
  call('HDEL',KEYS[1],claim,'b'..id,'a'..id,line.last==id and 'l' or claim)
end
if lasts>0 and call('PTTL',KEYS[2])<lasts then call('SET',KEYS[2],ARGV[3],'PX',lasts) end
if wrong then return wrong end
local held=line.holders[id]
line.holders[id]=nil
keep_moved(line)
if held then hand_on(line,KEYS[4]) end
return {mark,held and 'released' or 'absent'}
