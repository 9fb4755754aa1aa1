"""A recurrent confidence that also reads the draft law: c_k from everything known before x_k is drawn.

    x_k = [h_k ; W1[x_{k-1}] ; E of p_draft^k ; entropy, log of the largest probabilities of p_draft^k ;
           log p_draft^{k-1}(x_{k-1}), and the same over the largest]
    s_k = GRU(gelu(W x_k + b), s_{k-1}),   logit_k = w^T s_k + b',   s_0 = 0

The paper's head [DSpark eq. 7] is linear in h_k and W1[x_{k-1}], and a linear map cannot see how flat p_draft is; the
state remembers how likely the tokens drawn so far were. E embeds the likeliest tokens, weighted by probability.
The weights lie beside the drafter's, in recurrent.safetensors; `sparkit train confidence` makes them.

>>> RecurrentConfidence(vocab_size=8, hidden_size=4, rank=2, width=6).joint.in_features
49
"""

from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from sparkit.files import shown
from sparkit.protocols import CONFIDENCES
from sparkit.rounds import Draft, Rounds
from sparkit.targets.loaders.safetensors_file import FLOATS, Shards
from sparkit.targets.plain import lay_input_major

FILE = "recurrent.safetensors"
LIKELIEST, SHOWN = 16, 8  # tokens that are embedded; how many of their probabilities are read one by one
LEAST = 1e-7  # probabilities below count as this, before the logarithm
NUM_NUMBERS = 1 + SHOWN + 2


class LawView(NamedTuple):
    """What is read of the draft laws and of the tokens drawn from them."""

    tokens: Int[Tensor, "N gamma likeliest"]
    probs: Float[Tensor, "N gamma likeliest"]  # descending
    numbers: Float[Tensor, "N gamma numbers"]


class RecurrentConfidence(nn.Module):
    """See `sparkit.protocols.Confidence`.

    Args:
        vocab_size: V.
        hidden_size: d, the width of h_k.
        rank: width of the previous token's embedding; 0 reads none.
        width: of the recurrent state.
        embedding_size: of a likely token's embedding.
    """

    lossless = True
    batch_independent = True

    def __init__(
        self, vocab_size: int, hidden_size: int, rank: int = 0, width: int = 128, embedding_size: int = 32
    ) -> None:
        super().__init__()
        self.hidden_size, self.rank, self.width = hidden_size, rank, width
        self.embedding = nn.Parameter(torch.zeros(vocab_size, embedding_size))
        self.joint = nn.Linear(hidden_size + rank + embedding_size + NUM_NUMBERS, width)
        self.memory = nn.GRU(width, width, batch_first=True)
        self.proj = nn.Linear(width, 1)

    def forward(
        self, hidden: Float[Tensor, "N gamma d"], embedded: Float[Tensor, "N gamma r"] | None, law: LawView
    ) -> Float[Tensor, "N gamma"]:
        """Raw logits (the training form)."""
        likely = self._embed(law).view(*hidden.shape[:2], -1)
        parts = (hidden, embedded, likely, law.numbers) if embedded is not None else (hidden, likely, law.numbers)
        inputs = torch.cat([part.to(self.joint.weight) for part in parts], dim=-1)
        states: Tensor = self.memory(F.gelu(self.joint(inputs)))[0]
        logits: Tensor = self.proj(states)
        return logits[..., 0]

    def _embed(self, law: LawView) -> Float[Tensor, "rows e"]:
        """E: the likely tokens' embeddings, weighted by probability and summed (in one kernel)."""
        tokens, probs = law.tokens.flatten(0, 1), law.probs.flatten(0, 1).to(self.embedding)
        return F.embedding_bag(tokens, self.embedding, mode="sum", per_sample_weights=probs)

    def start(self) -> None:
        """No memory beyond a block."""

    @torch.no_grad()
    def logits(self, draft: Draft, memory: None) -> Float[Tensor, "R gamma"]:
        """See `Confidence`."""
        hidden, embedded = draft.hidden, draft.previous_embedding if self.rank else None
        sizes = [None if x is None else x.shape[-1] for x in (hidden, embedded)]
        if hidden is None or sizes != [self.hidden_size, self.rank or None]:
            raise ValueError(
                f"recurrent confidence for states of width {self.hidden_size} and embeddings of rank {self.rank}: the "
                f"draft has {sizes[0]} and {sizes[1]}; it belongs to another drafter"
            )
        return self.forward(hidden, embedded, view_of(draft.p_draft, draft.tokens))

    def observe(self, memory: None, rounds: Rounds) -> None:
        """No memory."""


def view_of(p_draft: Float[Tensor, "N gamma V"], tokens: Int[Tensor, "N gamma"]) -> LawView:
    """What may be known at each position: its own law, and of the drawn tokens only those before it."""
    count = min(LIKELIEST, p_draft.shape[-1])
    top = p_draft.topk(count, dim=-1)
    drawn = _log(p_draft.gather(2, tokens[..., None]))
    logs = _log(F.pad(top.values, (0, LIKELIEST - count)))
    entropy = -(p_draft * _log(p_draft)).sum(-1, keepdim=True)
    before = F.pad(torch.cat((drawn, drawn - logs[..., :1]), dim=-1)[:, :-1], (0, 0, 1, 0))
    return LawView(top.indices, top.values, torch.cat((entropy, logs[..., :SHOWN], before), dim=-1))


def _log(probs: Tensor) -> Tensor:
    return probs.clamp(min=LEAST).log()


@CONFIDENCES.register("recurrent", summary="trained recurrent head that also reads the draft law")
def load_recurrent(
    path: Path,
    vocab_size: int,
    hidden_size: int,
    dtype: torch.dtype = torch.float32,
    device: torch.device = torch.device("cpu"),
) -> RecurrentConfidence:
    """The recurrent confidence in a drafter's folder.

    Args:
        path: the folder.
        vocab_size: the target's.
        hidden_size: the target's width.
        dtype: of the drafter; half precision is promoted to float32, as the laws it reads are.
        device: where it goes.

    Raises:
        FileNotFoundError: without the file.
        ValueError: for weights of another vocabulary or width.
    """
    file = Path(path) / FILE
    if not file.is_file():
        raise FileNotFoundError(
            f"{path}: no {FILE}; make it with `sparkit train confidence`, or use the confidence 'head'"
        )
    shards = Shards([file])
    found = {name: tuple(entry.shape) for name, entry in shards.entries.items()}
    joint, table = found.get("joint.weight", (0, 0)), found.get("embedding", (0, 0))
    width, embedding_size = joint[0], table[-1]
    rank = joint[-1] - hidden_size - embedding_size - NUM_NUMBERS
    # Held against the file before anything is allocated: the state's matrices grow with the square of a width.
    is_ours = rank >= 0 and found == _shapes(vocab_size, joint[-1], width, embedding_size)
    if not is_ours or not {entry.dtype for entry in shards.entries.values()} <= set(FLOATS):
        raise ValueError(
            f"{file}: tensors {shown(found, 200)}; expected a recurrent confidence for {vocab_size} tokens and width "
            f"{hidden_size}"
        )
    wide = torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype
    made = RecurrentConfidence(vocab_size, hidden_size, rank, width, embedding_size).to(dtype=wide, device=device)
    for name, parameter in made.named_parameters():
        parameter.data.copy_(shards.read(name))
    lay_input_major(made)
    return made.eval().requires_grad_(False)


def _shapes(vocab_size: int, num_inputs: int, width: int, embedding_size: int) -> dict[str, tuple[int, ...]]:
    """Of every tensor in a file, by name."""
    gates = {f"memory.{kind}_{side}_l0": 3 * width for kind in ("weight", "bias") for side in ("ih", "hh")}
    state = {name: (size, width) if "weight" in name else (size,) for name, size in gates.items()}
    return {
        "embedding": (vocab_size, embedding_size),
        "joint.weight": (width, num_inputs),
        "joint.bias": (width,),
        **state,
        "proj.weight": (1, width),
        "proj.bias": (1,),
    }
