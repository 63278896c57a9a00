import pytest

from seeded_bugs import BUGS, is_found


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_seeded_bug_is_found(bug, tmp_path):
    assert is_found(bug, tmp_path / "copy")
