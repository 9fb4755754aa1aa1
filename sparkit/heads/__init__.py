"""Serial heads: what a parallel backbone lacks, a bias that reads the token before; importing registers them."""

from sparkit.heads import gated, markov, none, rnn

__all__ = ["gated", "markov", "none", "rnn"]
