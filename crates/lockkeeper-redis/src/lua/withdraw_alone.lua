-- WITHDRAW. KEYS: the four of the name. ARGV: \33, id | life of the tombstone in ms, or 0. Answers
-- 1, or 0: not there.
--
-- Here is the short way: the caller's claim is alone, and no tombstone is wanted. FREE takes its
-- place; the last token stays, so the next token is higher. Exclusion: the id is compared, so
-- nobody else's claim goes. ALONE has no waiter to notify, and no minimum hold.
local line_key=KEYS[1]
local stored,time=read_line(line_key),call('TIME')
local now=time[1]*1000000+time[2]
if stored and ARGV[2]=='0' and sub(stored,FORM,33)==ARGV[1] then
  local last_token,expires=decode('<dd',stored)
  -- A life of more than a day has made the key stay for longer than the last token needs.
  if expires-now>DAY then
    local ttl_ms=string.format('%.0f',math.max(TWO_DAYS_MS,(last_token-now)/1000+TWO_DAYS_MS))
    even_if_full(KEYS[2],'SET',line_key,sub(stored,1,8),'PX',ttl_ms)
  else even_if_full(KEYS[2],'SET',line_key,sub(stored,1,8),'KEEPTTL') end
  return expires>now and 1 or 0
end
local id,queue_key,claims_key,tombstones_key=sub(ARGV[1],2),KEYS[2],KEYS[3],KEYS[4]

