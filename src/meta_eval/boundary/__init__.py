"""Where the house meets what is not its own: foreign files, names and YAML, the code of packs, files for others."""
