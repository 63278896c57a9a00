import re
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def test_the_example_runs_as_it_stands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        names: dict = {}
        exec(compile(block, "README.md", "exec"), names)
        assert names["fit"].status == "converged"
        assert names["post"].diagnostics.r_hat < 1.05
        assert names["rate"].shape == (5,)
