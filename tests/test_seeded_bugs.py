import pytest

from seeded_bugs import BUGS, is_current, is_found


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_every_seeded_bug_is_found(bug, tmp_path):
    assert is_found(bug, tmp_path / "copy")


def test_the_mistakes_are_of_the_code_as_it_is():
    assert [bug.name for bug in BUGS if not is_current(bug)] == []
