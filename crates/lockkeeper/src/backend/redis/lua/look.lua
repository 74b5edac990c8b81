-- LOOK. KEYS: the four of the name. ARGV: id. Changes nothing.
-- Answers 8 bytes of the id | the token, 0 for one that waits, -2 for one that waits and is the first, or -1: not there.
local v=get(own)
local token=-1
if v and up('<d',v,9)>now then
  if byte(v,25)==1 then token=up('<d',v) else token=rank(own)==0 and -2 or 0 end
end
return sub(own,1,8)..pk('<d',token)
