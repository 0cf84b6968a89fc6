"""The tables of docs/published-consensus.md, from its counts.csv: `python -m benchmarks.published_consensus`.

Wilson's intervals, and differences with the score interval for two samples, as the games share no seeds.
"""

from pathlib import Path

import pandas as pd

from benchmarks.measure import fill
from parley.report.html import interval_text
from parley.statistics.stats import holm, unpaired_difference, unpaired_p, wilson_interval

PAGE = Path("docs/published-consensus.md")
KINDS = ["valid", "invalid", "none"]
# What is counted, and which games of counts.csv are compared.
CONTRASTS = (
    ("valid", "b == 0 and n == 4", "b == 0 and n == 16"),
    *(
        ("valid", f"model == '{model}' and n == 4", f"model == '{model}' and n == 16")
        for model in ("qwen3-8b", "qwen3-14b")
    ),
    ("valid", "model == 'qwen3-8b'", "model == 'qwen3-14b'"),
    *(("valid", "b == 0 and n == 8", f"b == {b}") for b in (1, 4)),
    *(("valid", "model == 'qwen3-14b' and n == 8", f"b == {b}") for b in (1, 4)),
    *(("invalid", "b == 0 and n == 8", f"b == {b}") for b in (3, 4)),
)


def main() -> None:
    """Write both tables into the page."""
    counts = pd.read_csv(PAGE.with_suffix("") / "counts.csv")
    rows = [
        [row["model"], row["n"], row["b"], *(_rate(row[kind], row["games"]) for kind in KINDS), row["mean_rounds"]]
        for row in counts.to_dict("records")
    ]
    sides = [[counts.query(where)[[kind, "games"]].sum() for where in both] for kind, *both in CONTRASTS]
    p = holm([float(unpaired_p(*one, *two)) for one, two in sides])
    contrasts = []
    for (kind, *both), ((x, n), (y, m)), corrected in zip(CONTRASTS, sides, p, strict=True):
        change = (y / m - x / n, *map(float, unpaired_difference(x, n, y, m)))
        points = interval_text(change, "+.0f", scale=100)
        contrasts.append([kind, *both, f"{x} of {n}", f"{y} of {m}", points, f"{corrected:.2g}"])
    fill(PAGE, "published_consensus: counts", ["model", "n", "b", *KINDS, "mean rounds"], rows)
    fill(PAGE, "published_consensus: contrasts", ["what", "from", "to", "", "", "points", "p (Holm)"], contrasts)


def _rate(count: int, games: int) -> str:
    return f"{count}: {interval_text((count / games, *wilson_interval(count, games)), '.0%')}"


if __name__ == "__main__":
    main()
