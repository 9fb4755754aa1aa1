"""The laws that every part of a kind must keep, for our parts and for anybody's.

from sparkit.proofs.laws import check_scheduler

check_scheduler(MyScheduler()).is_kept  # True
"""

from sparkit.proofs.laws.calibrator import check_calibrator
from sparkit.proofs.laws.confidence import check_confidence
from sparkit.proofs.laws.drafter import check_drafter
from sparkit.proofs.laws.head import check_head
from sparkit.proofs.laws.keeping import Broken, Report
from sparkit.proofs.laws.scheduler import check_scheduler
from sparkit.proofs.laws.verifier import check_verifier

__all__ = [
    "Broken",
    "Report",
    "check_calibrator",
    "check_confidence",
    "check_drafter",
    "check_head",
    "check_scheduler",
    "check_verifier",
]
