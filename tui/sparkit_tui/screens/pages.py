"""The eight screens in the order of their digits."""

from __future__ import annotations

from sparkit_tui.screens.acceptance import AcceptanceScreen
from sparkit_tui.screens.calibration import CalibrationScreen
from sparkit_tui.screens.collision import CollisionScreen
from sparkit_tui.screens.lossless import LosslessScreen
from sparkit_tui.screens.page import Page
from sparkit_tui.screens.race import RaceScreen
from sparkit_tui.screens.round import RoundScreen
from sparkit_tui.screens.scheduler import SchedulerScreen
from sparkit_tui.screens.serving import ServingScreen

PAGES: tuple[type[Page], ...] = (
    RoundScreen,
    AcceptanceScreen,
    CalibrationScreen,
    SchedulerScreen,
    ServingScreen,
    RaceScreen,
    LosslessScreen,
    CollisionScreen,
)
