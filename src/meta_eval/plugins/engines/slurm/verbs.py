"""The verb of this plug-in."""

from meta_eval.sockets import Verb

SLURM = Verb(
    "slurm",
    "Write job scripts that run a pack on a Slurm cluster.",
    "meta_eval.plugins.engines.slurm.slurm_verb:slurm",
    panel="Run",
)
