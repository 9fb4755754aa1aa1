"""The capacity curve as a picture: raw steps, the monotone envelope, and the parts that grow with requests.

plot_capacity(profile, Path("capacity.png"))
"""

from pathlib import Path
from typing import Any

from sparkit.capacity import Capacity, Sample
from sparkit.profiling import Profile


def plot_capacity(profile: Profile, path: Path) -> None:
    """Seconds of verification by batch_tokens, and of draft and overhead by requests, in milliseconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    verify, requests = figure.subplots(1, 2)
    _verify(verify, profile)
    _requests(requests, profile)
    figure.suptitle(profile.capacity.source)
    figure.savefig(path, dpi=150)


def _verify(axes: Any, profile: Profile) -> None:
    curve = profile.capacity.verify
    raw = [(one.batch_tokens, 1e3 * _tokens_share(one, profile.capacity)) for one in profile.samples]
    axes.scatter(*zip(*raw, strict=True), s=8, alpha=0.3, label="one step, less what its requests cost")
    sizes, seconds = zip(*curve.points, strict=True)
    style = "steps-pre" if curve.kind == "step" else "default"
    axes.plot(sizes, [1e3 * s for s in seconds], drawstyle=style, color="black", label=f"envelope ({curve.kind})")
    # single slow moments of the machine must not squeeze the curve
    axes.set(xlabel="tokens in the target's forward pass", ylabel="milliseconds", title="verification")
    axes.set_ylim(0, 2.5e3 * max(seconds))
    axes.legend()


def _tokens_share(one: Sample, capacity: Capacity) -> float:
    """What is left of a step for its tokens."""
    num = one.num_requests
    if one.verify_len is None:
        return one.seconds.total - capacity.plain_overhead.at(num)
    return one.seconds.total - capacity.draft_seconds(num, one.block_len) - capacity.overhead_seconds(num)


def _requests(axes: Any, profile: Profile) -> None:
    capacity = profile.capacity
    for label, curve in (
        ("draft", capacity.draft),
        ("a draft token of it", capacity.draft_token),
        ("overhead", capacity.overhead),
        ("overhead, undrafted", capacity.plain_overhead),
    ):
        sizes, seconds = zip(*curve.points, strict=True)
        axes.plot(sizes, [1e3 * s for s in seconds], marker="o", label=label)
    axes.set(xlabel="requests", ylabel="milliseconds", title="per step", ylim=(0, None))
    axes.legend()
