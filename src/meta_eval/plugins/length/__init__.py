"""Length as a decided quantity: how many more tokens the candidate's answers have, against a limit of the gate."""
