-- LINE. KEYS: the four of the name. Answers the header, and the claims with their ids.
settle(true)
if dirty then save() end
return {pk('<ddddc4',now,last,2*nq+n,touch,cap),all()}
