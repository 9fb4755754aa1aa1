"""The work behind `sparkit simulate`: sweeps over loads, regret, drift, and the closed loop on the real engine."""

from sparkit.cli.simulating.drift import drift
from sparkit.cli.simulating.options import Options, weights
from sparkit.cli.simulating.real import real, write_real
from sparkit.cli.simulating.sweep import simulate
from sparkit.cli.simulating.tables import show

__all__ = ["Options", "drift", "real", "show", "simulate", "weights", "write_real"]
