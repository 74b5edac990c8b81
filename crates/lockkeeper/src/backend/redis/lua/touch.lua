-- TOUCH. KEYS: the four of the name. Tells the observers of a line in use, as if it had changed.
settle()
if n>0 then touch,dirty=touch+1,true end
finish()
return 1
