"""A package, so that `from tests.statistics import FAILURE_RATE` works from every folder of tests."""
