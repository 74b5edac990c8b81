-- Renews the nth claim. The short way: it is alone and alive, so only `expires` is written, in place. SETRANGE counts
-- from 0. The id is compared, so nobody else's claim is extended; ALONE is never marked, requested or kept.
local function renew_nth(nth)
  local last_key,id=4*nth,ARGV[nth]
  local line_key=KEYS[last_key-3]
  local stored=read_line(line_key)
  if not stored or #stored==FREE_LENGTH then return -1 end
  local last_token,expires=decode('<d',stored),form_of(stored)==ALONE and decode('<d',stored,EXPIRES)
  if not expires or expires<=now or sub(stored,FORM,33)~=id then
    return renew(line_key,KEYS[last_key-2],KEYS[last_key-1],KEYS[last_key],sub(id,2),stored)
  end
  local lease=decode('<d',stored,LIFE+ALONE_SHIFT)
  -- The last renewal was in another hour: the key is to stay. This comes first, since nobody can see it if the rest fails.
  if expires-lease<now-now%HOUR then
    call('PEXPIRE',line_key,string.format('%.0f',math.max(TWO_DAYS_MS,lease/1000+DAY_MS,(last_token-now)/1000+TWO_DAYS_MS)))
  end
  even_if_full(KEYS[last_key-2] or line_key,'SETRANGE',line_key,'8',encode('<d',now+lease))
  return {last_token,lease-1000*decode('<I4',stored,DELAY+ALONE_SHIFT)}
end

for nth=1,#ARGV do answers[nth]=isolated(renew_nth,nth) end
if needs_all_keys then return false end
answers[#ARGV+1]=sub(ARGV[1],2,9)..encode('<d',now)
return answers
