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


def test_figures_of_the_paper_are_those_of_the_page():
    section = README.read_text().split("## The paper, reproduced\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if re.match(r"\| \w", line)]
    page = (README.parent / "results" / "paper.md").read_text().splitlines()
    assert rows
    assert [row for row in rows if row not in page] == []
    pictures = re.findall(r"!\[.*\]\((.*)\)", section)
    assert pictures
    assert [path for path in pictures if not (README.parent / path).is_file()] == []
