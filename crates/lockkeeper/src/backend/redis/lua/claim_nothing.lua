-- The end of CLAIM where only the key of the line may be touched.
return false
