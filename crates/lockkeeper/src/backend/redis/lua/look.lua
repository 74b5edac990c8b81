-- LOOK. KEYS: the four of the name. ARGV: id. Changes nothing.
-- Answers 8 bytes of the id | the token, 0 for one that waits, or -1.
local v=get(own)
local token=-1
if v and up('<d',v,9)>now then token=byte(v,25)==1 and up('<d',v) or 0 end
return sub(own,1,8)..pk('<d',token)
