"""The checks of `trust`, small here and larger under `make test-slow`; ``tests/trust/run.py`` runs them in full."""

import pytest

from trust import bad_numbers, calibration, coverage, faults, fuzz, geweke, soak
from trust.simulation import LIKELIHOODS

slow = pytest.mark.slow


@slow
@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
def test_ranks_of_the_truth_are_uniform(name):
    ranks = calibration.simulate(name, 60)
    assert ranks.p_value() > 1e-3, ranks.p_values()


@slow
@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
def test_data_and_draws_in_turn_keep_the_models_distribution(name):
    assert geweke.joint_test(name, 5000).largest < 4.5


@slow
def test_intervals_hold_what_they_promise():
    covered = coverage.coverage("Poisson", 12)
    for level, share in covered.shares.items():
        assert abs(share - level) < max(4.0 * covered.errors[level], 0.03), covered


@slow
def test_more_points_come_near_the_full_process():
    distances = coverage.distances_to_full()
    assert max(distances[coverage.SIZES[0]]) > 0.5
    assert max(distances[coverage.SIZES[-1]]) < 0.2


@pytest.mark.parametrize("number", [60, pytest.param(10_000, marks=slow)])
def test_damaged_files_are_read_or_refused_in_a_sentence(number, tmp_path):
    outcome = fuzz.fuzz(tmp_path, number)
    assert outcome.failures == []
    assert sum(outcome.tried.values()) >= 0.95 * number
    assert all(outcome.tried[kind] > outcome.read[kind] for kind in outcome.tried)


@slow
def test_bad_numbers_have_a_finite_answer_or_a_sentence():
    outcome = bad_numbers.sweep(30)
    assert outcome.failures == []
    assert outcome.answered
    assert outcome.refusals


@slow
def test_killed_runs_are_resumed_to_the_same_draws(tmp_path):
    assert faults.killed_and_resumed(tmp_path, num_kills=5, num_in_writes=2).is_identical


@slow
def test_memory_does_not_grow():
    assert soak.soak(25).growth < 0.05
