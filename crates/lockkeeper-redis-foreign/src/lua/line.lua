-- LINE, of several names. ARGV: 4 how many keys a name has, 5 the field of a message for which a
-- client waits, and for how many ms from now (empty if none does), 6 and later the readers of one
-- name. KEYS: those of one name after the other; from 5 on the strings of these readers. Answers a
-- line for each name.
local each=tonumber(ARGV[4])
local field,wait=string.match(ARGV[5],'^(%l)(%d+)$')
if each==0 then first,each=6,#KEYS end
local lines={}
for at=1,#KEYS,each do
  main,side,gone,more,scores=KEYS[at],KEYS[at+1],KEYS[at+2],KEYS[at+3],KEYS[at+4]
  local done,shown,problem=pcall(line)
  -- A value of another type spoils its own line only.
  if not done then
    shown=redis.error_reply(type(shown)=='table' and shown.err or shown)
  end
  lines[#lines+1]=shown or strange(problem)
end
if field then
  local waits=micros()+wait*1000
  if (tonumber(call('HGET',side,field)) or 0)<waits then
    call('HSET',side,field,waits)
    remember(tonumber(wait))
  end
end
return lines
