import numpy as np
import pytest

import freegp as fg

X = np.random.default_rng(0).normal(size=(60, 2)) * [1.0, 1000.0]


def test_kmeans_sees_every_column_on_its_own_scale():
    """Four clusters that differ in a column a thousand times smaller than the other are found."""
    rng = np.random.default_rng(0)
    corners = np.array([[0, 0], [0, 1], [1, 0], [1, 1]]) * [1.0, 1000.0]
    points = np.concatenate([corner + rng.normal(size=(20, 2)) * [0.01, 10.0] for corner in corners])
    centres = fg.KMeans(4).place(points, seed=0)
    nearest = np.abs((centres[:, None] - corners) / [1.0, 1000.0]).max(axis=-1).argmin(axis=0)
    assert sorted(nearest) == [0, 1, 2, 3]


def test_kmeans_is_reproducible_and_takes_every_row_if_asked():
    np.testing.assert_array_equal(fg.KMeans(7).place(X, seed=3), fg.KMeans(7).place(X, seed=3))
    np.testing.assert_allclose(np.sort(fg.KMeans(60).place(X, seed=0), axis=0), np.sort(X, axis=0))


def test_grid_covers_the_range():
    grid = fg.Grid((3, 4)).place(X, seed=0)
    assert grid.shape == (12, 2)
    np.testing.assert_allclose([grid.min(axis=0), grid.max(axis=0)], [X.min(axis=0), X.max(axis=0)])


def test_subset_is_distinct_rows():
    rows = fg.Subset(10).place(np.concatenate([X, X]), seed=0)
    assert len(np.unique(rows, axis=0)) == 10
    assert all((row == X).all(axis=1).any() for row in rows)


@pytest.mark.parametrize(
    ("placement", "message"),
    [(fg.KMeans(61), "60 distinct rows"), (fg.Subset(61), "60 distinct rows"), (fg.Grid((2, 2, 2)), "3 counts for 2")],
)
def test_bad_placements(placement, message):
    with pytest.raises(ValueError, match=message):
        placement.place(X, seed=0)
