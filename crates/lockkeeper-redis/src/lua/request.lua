-- REQUEST, by an administrator. ARGV: the ids of holders | who and why, as the words of a claim.
-- Asks each of these claims that still holds to release, in the place of an older request, and
-- NOTIFIES its client ('r'). Answers 1, or 0: nobody to ask. Without ids it asks nobody, and answers
-- the ids of the holders that it can ask. Marked claims are to end anyway, and kept claims have no
-- client. It changes what claims show, and nothing that decides about the lock.
--
-- An earlier answer had the ids. So a request that arrives late asks no later holder.
needs_no_memory=false
grant_waiters()
local is_meant,found,asked={},{},0
for i=1,#argument,16 do is_meant[sub(argument,i,i+15)]=true end
for claim_id,claim in pairs(all_claims()) do
  if byte(claim,GRANTED)==1 and sub(claim_id,9)~=KEPT and decode('<d',claim,EXPIRES)>now
    and byte(claim,FLAGS)%(2*BROKEN)<BROKEN then
    found[#found+1]=claim_id
    if is_meant[claim_id] then
      local length,words=decode('<I4',claim,LENGTH),ARGV[2]
      local name_len,_,flags,owner_len,reason_len,value_len=decode('<BI2BI2I2I4',claim,NAME_LEN)
      local shown=sub(claim,SHOWN,FLAGS-1)..string.char(flags%BROKEN+REQUESTED+(flags>=MIN_HOLD and MIN_HOLD or 0))
        ..sub(claim,FLAGS+1,TEXTS-1+name_len+owner_len+reason_len+value_len
        +(flags%(2*AMENDED)>=AMENDED and CHANGE_LENGTH or 0))..words
      set_claim(claim_id,sub(claim,1,LENGTH-1)..encode('<I4',#shown)..shown..sub(claim,SHOWN+length))
      local client=string.gsub(sub(claim,CLIENT,DELAY-1),'.',function(c) return string.format('%02x',byte(c)) end)
      notify('plk:w:'..client,'r'..claim_id..words)
      asked=1
    end
  end
end
if asked==1 then touched,header_changed=touched+1,true end
write_changes()
return argument=='' and table.concat(found) or asked
