"""What a full server does to the answers of a model: the verb ``load``."""
