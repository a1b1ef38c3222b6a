"""Small experiments from the attention literature, a file each."""
