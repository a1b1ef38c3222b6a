"""Small experiments from the attention literature, one file each."""
