-- LOOK. KEYS: the four of the name. ARGV: id. Changes nothing. Answers the token, 0 for one that waits, or -1.
local v=get(own)
if not v or up('<d',v,9)<=now then return -1 end
return byte(v,25)==1 and (up('<d',v)) or 0
