-- READ: the lines of these keys, on one node. Changes nothing.
local answers={}
for i,key in ipairs(KEYS) do
  local line,wrong=read_line(key)
  if wrong then
    if wrong.err then return wrong end
    answers[i]=wrong
  else
    local holders={}
    for id,holder in pairs(line.holders) do
      holders[#holders+1]={id,packed(holder),line.notes['b'..id] or ''}
    end
    answers[i]={'line',now,string.format('%.0f',line.fence),holders}
  end
end
return answers
