"""A key/value cache is one fixed tensor, cut into layers and slots; rollback is setting a length.

Every request owns one slot. Rows past a slot's length are garbage that the next forward overwrites, so nothing is
copied or cleared when drafts are rejected (design section 2). Not done here: deciding which slot a request gets.

>>> cache = SlotCache.empty(num_layers=1, num_slots=2, num_kv_heads=1, max_len=8, head_dim=4)
"""

from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(slots=True)
class SlotCache:
    """Keys and values of every layer, with the number of valid positions in each slot."""

    stack: Float[Tensor, "layers 2 slots len heads dim"]  # one block: a step cuts its views for all layers at once
    lengths: list[int]
    keys: tuple[Float[Tensor, "slots heads len dim"], ...] = field(init=False)  # views of the stack, one a layer
    values: tuple[Float[Tensor, "slots heads len dim"], ...] = field(init=False)

    def __post_init__(self) -> None:
        by_head = self.stack.transpose(3, 4)
        self.keys, self.values = by_head[:, 0].unbind(), by_head[:, 1].unbind()

    @classmethod
    def empty(
        cls,
        num_layers: int,
        num_slots: int,
        num_kv_heads: int,
        max_len: int,
        head_dim: int,
        *,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> "SlotCache":
        """Allocates zeros: a masked key must still be a finite number, since 0 * nan is nan."""
        shape = (num_layers, 2, num_slots, max_len, num_kv_heads, head_dim)
        return cls(torch.zeros(shape, dtype=dtype, device=device), [0] * num_slots)

    @property
    def num_slots(self) -> int:
        """Slots available, used or not."""
        return len(self.lengths)

    @property
    def max_len(self) -> int:
        """Positions a slot can hold."""
        return int(self.stack.shape[3])

    def truncate(self, slot: int, length: int) -> None:
        """Keeps the first `length` positions of a slot; what follows is rolled back.

        Raises:
            ValueError: if the slot holds fewer positions than asked to keep.
        """
        if not 0 <= length <= self.lengths[slot]:
            raise ValueError(f"truncate(slot={slot}, length={length}): the slot holds {self.lengths[slot]} positions")
        self.lengths[slot] = length

    def clone(self) -> "SlotCache":
        """An independent copy (snapshots)."""
        return type(self)(self.stack.clone(), list(self.lengths))
