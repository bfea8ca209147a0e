"""What can go wrong before the first token is generated: checks of the pack, of this machine and of the engine."""
