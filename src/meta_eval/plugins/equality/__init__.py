"""Whether two endpoints serve the same model, by samples of their answers alone: the verb ``equality``."""
