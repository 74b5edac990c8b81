-- CLAIM while the slot is on its way, and the side keys may be elsewhere. KEYS: that of the line. ARGV as for CLAIM.
-- Answers as CLAIM does, or nothing: not without the side keys.
do
  local K,r,t=KEYS[1],fetch(KEYS[1]),call('TIME')
  local now=t[1]*1000000+t[2]
  if r and #r~=8 and form(r)==17 then
    local last,exp=up('<dd',r)
    if exp<=now then call('SET',K,sub(r,1,8),'KEEPTTL')
    elseif sub(r,18,33)==sub(ARGV[1],2,17) then
      call('SETRANGE',K,'8',pk('<d',now+up('<d',r,42)))
      return sub(ARGV[1],2,9)..'g'..pk('<dd',now,last)
    -- One that does not wait is told who has it, where there is no more to say.
    elseif byte(ARGV[2])==48 and up('<I2',r,67)<=up('<I2',ARGV[1],51) then
      local cap,held=up('<I4I4',r,34)
      local mine,w=up('<I4I4',ARGV[1],18)
      if (cap==4294967295)~=(mine==4294967295) or held+w<=math.min(cap,mine) then return false end
      local from=78+byte(r,66)
      return sub(ARGV[1],2,9)..'b'..pk('<ddddd',now,last,1,0,exp-now)..sub(r,from,from+up('<I2',r,70)-1)
    end
  end
end
