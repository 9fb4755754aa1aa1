"""Models whose distribution must be kept: our own transformer, its loaders, the adapter to `transformers`."""

from sparkit.targets import hf, loaders, table

__all__ = ["hf", "loaders", "table"]
