"""llama.cpp, for CPUs."""
