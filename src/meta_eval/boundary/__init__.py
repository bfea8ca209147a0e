"""The edge of meta-eval: foreign files, names and YAML, the code of packs, and files for others."""
