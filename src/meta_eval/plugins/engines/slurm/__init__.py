"""Job scripts that run a pack on a Slurm cluster."""
