"""What a measured number must be read with: versions, device, cores and threads, as the JSON's "environment".

>>> environment("cpu")["device"]
'cpu'
"""

import os
import platform

from sparkit import __version__
from sparkit.targets.processor import fact


def environment(device: str) -> dict[str, object]:
    """The machine and the versions behind a measurement on `device` ("cpu", "cuda", "cuda:0", "mps")."""
    import torch

    return {
        "sparkit": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "device": device,
        "device_name": device_name(device),
        "cpu_count": usable_cores(),
        "threads": torch.get_num_threads(),
    }


def device_name(device: str) -> str:
    """What the device calls itself."""
    import torch

    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return "Apple GPU" if device == "mps" else cpu_name()


def cpu_name() -> str:
    """The processor's model name, as Linux tells it, else as Python knows it."""
    return fact("model name") or platform.processor() or platform.machine()


def usable_cores() -> int:
    """Cores that this process may use, which a container can make fewer than the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def devices() -> list[str]:
    """Every device that torch can compute on here."""
    import torch

    found = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    return [*found, "mps"] if torch.backends.mps.is_available() else found
