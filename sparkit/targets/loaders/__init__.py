"""A target by name or path: bundled, smollm2, a safetensors folder, a .gguf file, or hf:NAME for any causal LM.

`load_target` is what `compose` calls; the entries of `TARGETS` are what it calls in turn. Weights are read in the
precision they will run in; nothing is allocated before file and config have been held against each other.

    target, tokenizer = load_target("bundled", device="cpu", dtype=torch.float32, taps=(1, 4, 7, 10))
"""

from sparkit.targets.loaders.folder import save_model
from sparkit.targets.loaders.sources import Loaded, load_target

__all__ = ["Loaded", "load_target", "save_model"]
