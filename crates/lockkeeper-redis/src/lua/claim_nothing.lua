-- The end of CLAIM_OPEN: the key of the line alone does not decide. Answers nothing, and the client sends CLAIM.
return false
