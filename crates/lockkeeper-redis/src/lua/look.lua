-- LOOK. ARGV: id, the channel of the client that asks. Changes nothing, so it neither grants a
-- claim nor extends a life. Answers the first 8 bytes of the id | its token if it holds, 0 if it
-- waits, -2 if it waits and is the first, -3 if it waits and another channel gets its messages, -1
-- if it is not there or dead.
local claim=claim_of(argument)
local token=-1
if claim and decode('<d',claim,EXPIRES)>now then
  if byte(claim,GRANTED)==1 then token=decode('<d',claim)
  elseif sub(claim,SHOWN+decode('<I4',claim,LENGTH))~=ARGV[2] then token=-3
  else token=waiters_ahead(argument)==0 and -2 or 0 end
end
return sub(argument,1,8)..encode('<d',token)
