"""One page of HTML that needs nothing else: no network, no script, no font, and pictures inside it."""

from html import escape
from os import PathLike
from pathlib import Path

from freegp.diagnostics import Diagnostics
from freegp.posterior import Posterior
from freegp.report.figures import Picture, belief_picture, calibration_picture, chain_pictures, fit_picture
from freegp.report.source import as_posterior
from freegp.report.style import STYLE
from freegp.report.units import Units
from freegp.report.words import Estimate, diagnostics_rows, estimates, fixed_in_words, model_in_words, sparsity_in_words

MOST_PICTURED = 12
"""How many parameters have their pictures; of more, those with the fewest effective samples."""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def write_report(
    run_or_posterior: Posterior | str | PathLike[str],
    out: str | PathLike[str],
    *,
    title: str = "Report of a freegp run",
    units: Units | None = None,
) -> Path:
    """Write what was fitted, whether to trust it and what came out to one HTML page, and say where it is.

    Parameters
    ----------
    run_or_posterior
        What `fg.sample` returned, the path of a saved posterior, or the folder of a finished run (``run_dir``).
    out
        The file, if its name ends in .html; otherwise a folder, made if need be, for report.html.
    title
        The page's heading.
    units
        What the columns are called and measured in, if the model saw them standardised.
    """
    path = Path(out)
    path = path if path.suffix.lower() in (".html", ".htm") else path / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(page(as_posterior(run_or_posterior), title, units), encoding="utf-8")
    return path


def page(posterior: Posterior, title: str, units: Units | None) -> str:
    """The page's text."""
    found, known = posterior.diagnostics, estimates(posterior, units.inputs if units else ())
    body = [
        f"<h1>{escape(title)}</h1>",
        _verdict(found),
        _section("What was fitted", _fitted(posterior, found)),
        _section("The function", _picture(fit_picture(posterior, units))),
        _section("Parameters", _parameters(posterior, known, units.note if units else "")),
        _section("Calibration", _picture(calibration_picture(posterior))),
        _section("What sparsity costs", f"<p>{escape(sparsity_in_words(found.sparsity))}</p>"),
        _section("Chains", _chains(posterior, known)),
        _section("Diagnostics", _table(found)),
    ]
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style>"
    )
    content = "\n".join(part for part in body if part)
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body><main>\n{content}\n</main></body>\n</html>\n'


def _verdict(found: Diagnostics) -> str:
    sparse = found.sparsity is not None and found.sparsity.matters
    kind = "bad" if not found.converged else "mixed" if sparse else "good"
    return f'<p class="verdict {kind}" id="verdict">{escape(found.verdict[:1].upper() + found.verdict[1:])}</p>'


def _fitted(posterior: Posterior, found: Diagnostics) -> str:
    drawn = f"The posterior was sampled by {found.num_chains} chains of {found.num_draws} draws each."
    held = fixed_in_words(posterior)
    fixed = f"<p>Held at their values: {', '.join(f'<code>{escape(each)}</code>' for each in held)}.</p>" if held else ""
    return f"<p>{escape(model_in_words(posterior))} {escape(drawn)}</p>{fixed}"


def _parameters(posterior: Posterior, known: list[Estimate], note_on_units: str) -> str:
    if not known:
        return "<p>Every parameter was held at its value; only the function was inferred.</p>"
    items = "".join(
        f"<li>{escape(each.sentence)} <small><code>{escape(each.name)}</code>, prior {escape(each.prior)}</small></li>"
        for each in known
    )
    names, note = pictured(posterior, known)
    measured = "".join(f"<p><small>{escape(line[:1].upper() + line[1:])}.</small></p>" for line in note_on_units.splitlines())
    lead = "<p>The median of the draws of each, and where 90 % of them lie:</p>"
    return f"{lead}<ul>{items}</ul>{measured}{note}{_picture(belief_picture(posterior, names))}"


def _chains(posterior: Posterior, known: list[Estimate]) -> str:
    if not known:
        return ""
    names, note = pictured(posterior, known)
    return note + "".join(_picture(picture) for picture in chain_pictures(posterior, names))


def pictured(posterior: Posterior, known: list[Estimate]) -> tuple[list[str], str]:
    """The parameters that have pictures, in the model's order, and a note if they are not all."""
    names = [each.name for each in known]
    if len(names) <= MOST_PICTURED:
        return names, ""
    slowest = set(posterior.summary()["ess_bulk"].sort_values().index[:MOST_PICTURED])
    note = f"<p>Pictures are of the {MOST_PICTURED} parameters of {len(names)} with the fewest effective samples.</p>"
    return [name for name in names if name in slowest], note


def _table(found: Diagnostics) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(what)}</th><td>{escape(value)}</td><td>{escape(wanted)}</td></tr>'
        for what, value, wanted in diagnostics_rows(found)
    )
    head = '<tr><th scope="col">what</th><th scope="col">found</th><th scope="col">wanted</th></tr>'
    return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"


def _picture(picture: Picture | None) -> str:
    if picture is None:
        return ""
    image = f'<img src="{picture.address}" alt="{escape(picture.alternative)}">'
    return f"<figure>{image}<figcaption>{escape(picture.caption)}</figcaption></figure>"


def _section(heading: str, content: str) -> str:
    """Nothing, where there is nothing to say."""
    return f"<section><h2>{escape(heading)}</h2>{content}</section>" if content else ""
