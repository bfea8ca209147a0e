"""The pack: its docs and tasks, its `manifest`, and how `pack_builder` makes and writes it as a whole."""
