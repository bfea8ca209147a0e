"""The pack: its docs and tasks, its `manifest`, and how `pack_writer` writes it as a whole."""
