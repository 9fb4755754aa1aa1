"""DSpark speculative decoding: draft, verify, commit, with exactness proved on the real code.

Importing this package imports nothing else: `sparkit.compose` builds an engine from names,
`sparkit.protocols` is the page of extension points, `sparkit.rounds` the data that everything reads.
"""

__version__ = "0.1.0"
