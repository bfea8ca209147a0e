"""nemo_evaluator: bundles of NeMo Evaluator."""
