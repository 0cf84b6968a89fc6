"""The figures of a study: what is written, what each kind shows and leaves out, and which games are shown."""

import json
import re
import struct
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure

from parley import paths
from parley.figures.make import figures
from parley.figures.style import Look, own_style
from parley.figures.trajectories import choose, trajectories
from support.figures import intervals, pages_of, panels_of, text_of
from support.studies import GRIDS, make_study

HOSTILE = "Costs $5 and $\\bad{ <script>&amp; \u4e2d\u6587 " + "long " * 20


def shown(kind: str, grids: str, name: str) -> list[Figure]:
    """Play a study and draw its first figure of a kind."""
    return pages_of(make_study(grids, name=name), kind)


def missing(page: Figure | Sequence[Figure], *words: str) -> list[str]:
    told = text_of(page)
    return [word for word in words if word not in told]


def bars_of(pages: Sequence[Figure]) -> Counter[tuple[float, float]]:
    """How often each interval stands in the figure of stacked bars; each is drawn twice, with a halo."""
    twice = Counter((round(low, 3), round(high, 3)) for ax in panels_of(pages) for low, high in intervals(ax))
    return Counter({interval: number // 2 for interval, number in twice.items()})


# Files


@pytest.mark.promise("Figures are the same bytes, whoever draws them.")
@pytest.mark.slow
def test_every_figure_is_written_whole_and_whoever_draws_it_in_the_same_bytes(home: Path) -> None:
    grids = "[{model: majority, n: 4, b: [0, 1], prompt: [may_exist, none_exist]}]"
    study = make_study(grids, title=HOSTILE, name="x" * 60)
    first = {path: path.read_bytes() for path in figures(study)}
    listed = json.loads(paths.figure_list(study.name).read_text())
    assert [figure["name"] for figure in listed] == [spec.name for spec in study.figures]
    assert all(figure["pages"][0] == figure["name"] and figure["caption"] for figure in listed)
    pages = [page for figure in listed for page in figure["pages"]]
    files = {paths.figure(study.name, page, suffix) for page in pages for suffix in (".png", ".svg", ".pdf")}
    wide = {paths.figure(study.name, page, ".svg") for figure in listed for page in figure.get("wide", [])}
    assert [path.stem for path in wide] == ["outcomes_by_byzantine-wide"]  # for the head of the report
    assert set(first) == files | wide | {paths.figure_list(study.name)}
    for path, content in first.items():
        assert not re.search(rb"Matplotlib v|Matplotlib version|<dc:date>|/CreationDate|/Producer", content), path
        if path.suffix == ".png":
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
            assert content.endswith(b"IEND\xaeB`\x82")
            across, high = struct.unpack(">II", content[16:24])
            assert (across, high <= 1800) == (900, True)  # 4.5 by at most 9 inches
        elif path.suffix == ".pdf":
            assert content.startswith(b"%PDF")
            assert b"/FontFile2" in content  # TrueType, embedded: publishers refuse Type 3
            assert b"/Type3" not in content
        elif path.suffix == ".svg" and path not in wide:  # of these the page has the title
            words = " ".join(ElementTree.parse(path).getroot().itertext())
            assert "$5 and $" in words
            assert "<script>&amp;" in words
    assert not list(home.rglob("*.tmp"))
    # The style of a user, and other processes, change nothing.
    for path in first:
        path.unlink()
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.grid": True, "savefig.facecolor": "red"}):
        assert {path: path.read_bytes() for path in figures(study, processes=2)} == first
    assert matplotlib.rcParams["svg.hashsalt"] is None  # nothing of ours stays behind


# Rates


@pytest.mark.slow
def test_rates_show_intervals_and_numbers_of_simulations() -> None:
    page = shown("rates", GRIDS, "tiny")
    assert not missing(page, "A study: Outcomes by group size", "3 sims per point", "In all panels: b=0")
    assert not missing(page, "Conditions with a larger b are not shown here: 2.")
    ends = [interval for ax in panels_of(page) for interval in intervals(ax)]
    assert pytest.approx((0.4385, 1.0), abs=1e-4) in ends  # Wilson, 3 of 3
    assert not {"5", "7"} & set(text_of(page).split())  # the n of conditions with b > 0


@pytest.mark.slow
def test_rates_say_where_an_outcome_cannot_be_and_draw_no_point() -> None:
    grids = "[{model: majority, n: [3, 4], prompt: may_exist, vary: {value_max: [0, 5]}}]"
    page = shown("rates", grids, "cannot")
    # Invalid consensus and premature stops on a single value, for each n.
    assert [text_of(page).count(word) for word in ("cannot be", "nan")] == [4, 0]
    assert sum(len(intervals(ax)) for ax in panels_of(page)) == 4 * 2 * 2 - 4


# Stacked bars


@pytest.mark.promise("A paper's numbers of single conditions are marks in figures, and have an entry in the legend.")
def test_a_paper_s_numbers_of_single_conditions_are_marks() -> None:
    numbers = {("valid_consensus", 0): 20, ("valid_consensus", 1): 6, ("invalid_consensus", 1): 4}
    paper = [{"what": what, "where": {"b": b}, "count": count, "of": 25} for (what, b), count in numbers.items()]
    paper += [{"what": "valid_consensus", "rate": 0.5}, {"what": "invalid_consensus", "where": {"b": 0}, "rate": 0.01}]
    grid = "[{model: majority, n: 3, b: [0, 1], byzantine: random, prompt: may_exist}]"
    study = make_study(grid, name="m", extra=f"paper: {json.dumps(paper)}\n")

    def marks(kind: str) -> list[tuple[float, float]]:
        pages = pages_of(study, kind)
        assert "paper" in text_of(pages)
        lines = [line for ax in panels_of(pages) for line in ax.lines if line.get_marker() == "D"]
        return sorted((round(line.get_xdata()[0], 2), round(line.get_ydata()[0], 2)) for line in lines)

    assert marks("stacked") == [(0.25, 0.8), (1.25, 0.24), (1.25, 0.4)]  # one at 81% would hide that at 80%
    assert marks("rates") == [(0, 0.01), (0, 0.8)]  # of b = 0 alone


@pytest.mark.slow
def test_stacked_bars_and_maps_claim_nothing_of_what_cannot_be() -> None:
    """No game without honest agents is valid."""
    grid = "{model: majority, n: 3, b: [0, 3], byzantine: stubborn, prompt: may_exist}"
    page = shown("stacked", f"[{grid}]", "some")
    assert bars_of(page) == {(0.342, 1.0): 1}  # Wilson, 2 of 2
    assert not missing(page, "–: cannot be.")
    assert "nan" not in text_of(page)
    page = shown("stacked", f"[{grid.replace('[0, 3]', '3')}]", "all")
    assert bars_of(page) == {(0.0, 0.658): 1}
    assert not missing(page, "Error bars: invalid consensus")
    grid = "[{model: majority, n: 3, b: [0, 1, 3], byzantine: [stubborn, random], prompt: may_exist}]"
    text = text_of(shown("map", grid, "map"))
    assert len(re.findall(r"\d+% ", text)) == 1 * 4 + text.count("95% ")
    assert "nan" not in text


# Trajectories, and which games are shown


def chosen(grids: str, *most: int) -> list[tuple[dict[str, str | int | float], int]]:
    study = make_study(grids, name="chosen", play=False)
    found = choose(list(study.simulations()), study.axes, *most)
    return [(dict(simulation.condition.axes), simulation.seed) for simulation in found]


def test_trajectories_choose_the_lowest_of_listed_seeds() -> None:
    grids = "[{model: [majority, random], n: 4, prompt: may_exist, seeds: [9, 2, 5]}]"
    expected = [(model, seed) for model in ("majority", "random") for seed in (2, 5, 9)]
    assert [(axes["model"], seed) for axes, seed in chosen(grids)] == expected
    assert [seed for _, seed in chosen(grids, 5)] == [2, 5, 2, 5]


def test_trajectories_show_unlike_conditions_and_favor_none() -> None:
    crossed = "[{model: [majority, random], n: [4, 5, 6, 7, 8], b: [0, 1], prompt: [may_exist, none_exist]}]"
    found = chosen(crossed)
    assert (len(found), {seed for _, seed in found}) == (8, {0})
    for axis, values in (("model", 2), ("n", 5), ("b", 2), ("prompt", 2)):
        assert len({axes[axis] for axes, _ in found}) == values


@pytest.mark.parametrize("width", [None, "page"])
def test_no_row_of_trajectories_has_two_prompts(width: str | None) -> None:
    study = make_study("[{model: random, n: 4, prompt: [may_exist, none_exist], seeds: 4}]", name="rows")
    [spec] = [spec for spec in study.figures if spec.name == "trajectories"]
    with own_style(Look(width)):
        for page in trajectories(study, spec):
            rows = {(round(ax.get_position().y0, 2), "may_" in ax.get_title()) for ax in panels_of(page)}
            assert len(rows) == 2


@pytest.mark.promise("A study names the single games that are drawn; the default favors no condition.")
def test_a_study_names_the_simulations_that_are_drawn() -> None:
    grids = "[{model: [majority, random], n: 4, prompt: [may_exist, none_exist], seeds: 4}]"
    extra = "figures: {trajectories: [{where: {prompt: none_exist, model: random}, seeds: [3, 1]}, {where: {n: 4}}]}\n"
    study = make_study(grids, extra=extra, play=False, name="named")
    named = [(s.condition.axes["model"], s.condition.axes["prompt"], s.seed) for s in study.named_for("trajectories")]
    assert named[:2] == [("random", "none_exist", 3), ("random", "none_exist", 1)]
    assert (len(named), {seed for *_, seed in named[2:]}) == (6, {0})
    plain = make_study(grids, play=False, name="named")
    assert [s.id for s in plain.simulations()] == [s.id for s in study.simulations()]
    assert plain.plan != study.plan  # so that figures are made anew
