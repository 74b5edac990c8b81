-- SWEEP: removes the readers that have died. ARGV: 4 the readers, and later. KEYS: 5 their strings,
-- and later. Answers how many there were.
first=4
return sweep()
