"""Safe access to things from outside: files, names, YAML, and the code of templates and packs."""
