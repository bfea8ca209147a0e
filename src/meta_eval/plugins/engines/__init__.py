"""engines: vLLM, Ray, llama.cpp, the models of lm-eval, Slurm."""
