-- The rest of WITHDRAW, without a tombstone, while the slot is on its way, and the side keys may be elsewhere: what they
-- still hold of a line that is empty means nothing. Answers nothing: not without them.
if not r or #r==8 or form(r)==17 then return 0 end
local _,low,_,_,nq,n,_,_,head,tomb,obs=up('<ddc1dI4I4dc4c16ddd',r)
-- `low` may be below the end of its life, which its record alone tells.
if n~=1 or nq~=0 or head~=id or tomb>now or obs>now or low<=now then return false end
spare(K,'SET',K,sub(r,1,8),'KEEPTTL')
return 1
