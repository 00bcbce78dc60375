"""Where answers are lost: rules, what words tell, counts and flows."""
