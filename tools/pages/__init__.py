"""The pages of docs/ that are made from something else in the repository, a module each."""
