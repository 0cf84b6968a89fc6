import dataclasses
import json
import re
import struct
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from parley import paths
from parley.analysis.tables import read_table
from parley.errors import RecordError, UsageError
from parley.figures import (
    make as figures,
)
from parley.figures import (
    page as figures_page,
)
from parley.figures import (
    panels as figures_panels,
)
from parley.figures import (
    trajectories as figures_trajectories,
)
from parley.figures.style import own_style
from parley.games.evidence import FigureSpec, Trajectory
from parley.report import page as report
from parley.study import Study
from support.panels import intervals, panels_of
from support.studies import GRIDS, make_study


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def svg_text(study: Study, kind: str) -> list[str]:
    """The texts of the study's figure of this kind, in order; a wrapped line is a text of its own."""
    spec = next(spec for spec in study.figures if spec.kind == kind)
    root = ElementTree.parse(paths.figure(study.name, spec.name, ".svg")).getroot()
    return ["".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")]


def drawn(study: Study, kind: str) -> str:
    figures.figures(with_specs(study, *(spec for spec in study.figures if spec.kind == kind)))
    return " ".join(svg_text(study, kind))


def bars_of(study: Study) -> Counter[tuple[float, float]]:
    """How often each interval stands in the figure of stacked bars; each is drawn twice, with a halo."""
    pages = pages_of("stacked", study)
    twice = Counter((round(low, 3), round(high, 3)) for ax in panels_of(pages) for low, high in intervals(ax))
    return Counter({interval: number // 2 for interval, number in twice.items()})


def pages_of(kind: str, study: Study) -> list[Figure]:
    """The pages of a figure of a study that was played."""
    spec = next(spec for spec in study.figures if spec.kind == kind)
    with own_style():
        return figures.draw(study, spec, lambda name: read_table(study.name, name))


def with_specs(study: Study, *specs: FigureSpec) -> Study:
    evidence = type("Shown", (type(study.game.evidence),), {"figures": specs})()
    game = type("Other", (study.game,), {"evidence": evidence})
    return dataclasses.replace(study, game=game)


@pytest.mark.slow
def test_every_spec_is_drawn_as_png_and_svg(here: Path) -> None:
    study = make_study()
    written = figures.figures(study)
    # Each with all its pages, and the list of them.
    listed = json.loads(paths.figure_list("tiny").read_text())
    assert [figure["name"] for figure in listed] == [spec.name for spec in study.figures]
    assert all(figure["pages"][0] == figure["name"] and figure["caption"] for figure in listed)
    pages = [page for figure in listed for page in figure["pages"]]
    assert set(written) == {
        *(paths.figure("tiny", page, suffix) for page in pages for suffix in (".png", ".svg", ".pdf")),
        paths.figure_list("tiny"),
    }
    for path in written:
        if path.suffix == ".png":
            content = path.read_bytes()
            assert content.startswith(b"\x89PNG\r\n\x1a\n")
            assert content.endswith(b"IEND\xaeB`\x82")
            wide, high = struct.unpack(">II", content[16:24])
            assert (wide, high <= 1800) == (1400, True)  # 7 by at most 9 inches
        elif path.suffix == ".pdf":
            content = path.read_bytes()
            assert content.startswith(b"%PDF")
            assert b"/FontFile2" in content  # TrueType, embedded: publishers refuse Type 3
            assert b"/Type3" not in content
        elif path.suffix == ".svg":
            assert ElementTree.parse(path).getroot().tag.endswith("svg")
    assert not list(here.rglob("*.tmp"))


@pytest.mark.slow
def test_two_runs_are_byte_identical_and_name_no_version_or_date(here: Path) -> None:
    study = make_study()
    first = {path: path.read_bytes() for path in figures.figures(study)}
    assert {path: path.read_bytes() for path in figures.figures(study)} == first
    for content in first.values():
        assert not re.search(rb"Matplotlib v|Matplotlib version|<dc:date>|/CreationDate|/Producer", content)


@pytest.mark.slow
def test_a_users_own_style_changes_nothing(here: Path) -> None:
    import matplotlib

    study = make_study()
    first = [path.read_bytes() for path in figures.figures(study)]
    with matplotlib.rc_context({"lines.linewidth": 9, "axes.grid": True, "savefig.facecolor": "red"}):
        assert [path.read_bytes() for path in figures.figures(study)] == first
    assert matplotlib.rcParams["svg.hashsalt"] is None  # nothing of ours stays behind


@pytest.mark.slow
def test_rates_show_intervals_and_numbers_of_simulations(here: Path) -> None:
    text = drawn(make_study(), "rates")
    assert "A study: Outcomes by group size" in text
    assert "[44, 100]" not in text  # the tables have the numbers
    assert "3 sims per point." in text
    ends = {interval for ax in panels_of(pages_of("rates", make_study(play=False))) for interval in intervals(ax)}
    assert any(interval == pytest.approx((0.4385, 1.0), abs=1e-4) for interval in ends)  # Wilson, 3 of 3
    assert "Conditions with a larger b are not shown here: 2." in text
    assert "In all panels: b=0" in text
    assert not {"5", "7"} & set(text.split())  # the n of conditions with b > 0


def test_rates_without_b_zero_take_the_smallest_b_and_say_so(here: Path) -> None:
    study = make_study("[{model: random, n: 4, b: [1, 2], prompt: may_exist}]")
    text = drawn(study, "rates")
    assert "Conditions with a larger b are not shown here: 1." in text
    assert "b=1, prompt=may_exist" in text


def test_rates_tell_unequal_numbers_of_simulations_apart(here: Path) -> None:
    study = make_study(
        "[{model: majority, n: [4, 5], prompt: may_exist, seeds: 1}, {model: majority, n: [4, 5], prompt: none_exist}]"
    )
    text = drawn(study, "rates")
    assert "(1/2)" in text
    assert "In brackets: sims per point" in text


@pytest.mark.slow
def test_stacked_groups_by_the_agents_that_stay_and_leaves_out_in_words(here: Path) -> None:
    grids = GRIDS.replace("[4, 6]", "[4, 6, 8]")
    text = drawn(make_study(grids), "stacked")
    assert "so n grows with b" in text
    assert "Not shown: 11 of 12 groups of conditions, run with one b only." in text
    assert {"(3)", "(2)"} <= set(text.split())


@pytest.mark.slow
def test_stacked_with_n_fixed_says_what_n_counts(here: Path) -> None:
    study = make_study("[{model: random, n: 5, b: [0, 1, 2], prompt: may_exist}]")
    text = drawn(study, "stacked")
    assert "n counts all agents" in text
    assert "n=5" in text


def test_stacked_labels_a_missing_combination(here: Path) -> None:
    grids = "[{model: majority, n: 4, b: [0, 1, 2], prompt: may_exist},"
    grids += " {model: random, n: 4, b: [0, 2], prompt: may_exist}]"
    assert drawn(make_study(grids), "stacked").count("not run") == 1


def test_stacked_leaves_out_what_has_one_bar_where_others_compare(here: Path) -> None:
    grids = "[{model: majority, n: 4, b: [0, 1], prompt: may_exist}, {model: random, n: 4, prompt: may_exist}]"
    text = drawn(make_study(grids), "stacked")
    assert "Not shown: 1 of 2 groups of conditions, run with one b only." in text


# Outcomes that a condition cannot have: no game without honest agents is valid


def test_stacked_claims_nothing_of_what_cannot_be(here: Path) -> None:
    study = make_study("[{model: majority, n: 3, b: [0, 3], byzantine: stubborn, prompt: may_exist}]")
    text = drawn(study, "stacked")
    assert bars_of(study) == {(0.342, 1.0): 1}  # Wilson, 2 of 2
    assert "–: cannot be." in text
    assert "nan" not in text


def test_stacked_shows_no_outcome_that_no_condition_can_have(here: Path) -> None:
    grids = "[{model: majority, n: 3, b: [3], byzantine: stubborn, prompt: may_exist}]"
    text = drawn(make_study(grids), "stacked")
    assert "valid consensus" not in text.replace("invalid consensus", "")
    assert "Error bars: invalid consensus, with its 95% Wilson interval." in text
    assert "cannot be" not in text


def test_stacked_tells_for_each_panel_the_first_outcome_that_can_be(here: Path) -> None:
    grids = "[{model: majority, honest: 0, b: [3, 4], byzantine: stubborn, prompt: may_exist},"
    grids += " {model: majority, honest: 3, b: [0, 1, 2], byzantine: stubborn, prompt: may_exist}]"
    study = make_study(grids)
    text = drawn(study, "stacked")
    assert "valid consensus or, where a panel cannot have it, invalid consensus, with its" in text
    # All of nobody's games time out, so 0% are invalid.
    assert bars_of(study) == {(0.342, 1.0): 1, (0.0, 0.658): 4}
    assert "cannot be" not in text


@pytest.mark.slow
def test_rates_say_where_an_outcome_cannot_be_and_draw_no_point(here: Path) -> None:
    grids = "[{model: majority, n: [3, 4], prompt: may_exist, vary: {value_max: [0, 5]}}]"
    study = make_study(grids)
    text = drawn(study, "rates")
    assert text.count("cannot be") == 4  # invalid consensus and premature stops on a single value, for each n
    assert "nan" not in text
    panels = panels_of(pages_of("rates", study))
    assert sum(len(intervals(ax)) for ax in panels) == 4 * 2 * 2 - 4
    alone = drawn(
        make_study("[{model: majority, n: [3, 4], prompt: may_exist, vary: {value_max: [0]}}]", name="one"), "rates"
    )
    assert "invalid consensus" not in alone


@pytest.mark.slow
def test_a_map_leaves_the_cell_empty_where_its_outcome_cannot_be(here: Path) -> None:
    grids = "[{model: majority, n: 3, b: [0, 1, 3], byzantine: [stubborn, random], prompt: may_exist}]"
    text = drawn(make_study(grids), "map")
    assert len(re.findall(r"\d+% ", text)) == 1 * 4 + text.count("95% ")
    assert "nan" not in text
    grids = "[{model: majority, n: 3, b: 3, byzantine: [stubborn, random], prompt: may_exist},"
    grids += " {model: majority, n: 4, b: 4, byzantine: random, prompt: may_exist}]"
    assert "Nothing to compare" in drawn(make_study(grids, name="nobody"), "map")


@pytest.mark.slow
def test_conditions_are_never_pooled_over_a_varied_parameter(here: Path) -> None:
    grids = "[{model: random, n: 4, b: [0, 1], prompt: may_exist, vary: {history_rounds: [0, 1], retries: [1, 2]}}]"
    study = make_study(grids)
    figures.figures(study)
    text = " ".join(svg_text(study, "stacked"))
    assert all(f"history_rounds={history}, retries={retries}" in text for history in (0, 1) for retries in (1, 2))
    points = [len(intervals(ax)) for ax in panels_of(pages_of("rates", study))]
    assert points == [2] * 4 * 2  # one for each number of rounds of history, in a panel for each outcome and retries
    assert bars_of(study).total() == 8


@pytest.mark.slow
def test_trajectories_say_how_many_are_shown_and_how_each_ended(here: Path) -> None:
    study = make_study()
    text = drawn(study, "trajectories")
    assert "8 of 28 simulations shown: the lowest seed of 8 of 10 conditions" in text
    assert text.count("seed 0: ") == 8
    assert "valid consensus, rounds=2" in text


def test_trajectories_choose_the_lowest_of_listed_seeds(here: Path) -> None:
    study = make_study("[{model: [majority, random], n: 4, prompt: may_exist, seeds: [9, 2, 5]}]", play=False)
    chosen = figures_trajectories.choose(list(study.simulations()), study.axes)
    expected = [(model, seed) for model in ("majority", "random") for seed in (2, 5, 9)]
    assert [(s.condition.axes["model"], s.seed) for s in chosen] == expected
    four = figures_trajectories.choose(list(study.simulations()), study.axes, 5)
    assert [s.seed for s in four] == [2, 5, 2, 5]


def test_trajectories_favor_no_condition(here: Path) -> None:
    """Whatever the order of the study, each value of an axis comes up as often as the others, or about so."""
    grids = "[{model: [majority, random], n: [4, 8, 16], prompt: [may_exist, none_exist], seeds: 3}, "
    grids += "{model: majority, honest: 8, b: [1, 2, 3, 4], prompt: may_exist, seeds: 2}]"
    for wanted in (grids, grids.replace("[majority, random]", "[random, majority]")):
        study = make_study(wanted, play=False)
        chosen = figures_trajectories.choose(list(study.simulations()), study.axes)
        times = {axis: Counter(s.condition.axes[axis] for s in chosen) for axis in study.axes}
        assert max(times["model"].values()) - min(times["model"].values()) <= 2
        assert max(times["prompt"].values()) - min(times["prompt"].values()) <= 2
        assert (len(times["b"]), len(times["n"])) == (5, 7)


def test_a_study_names_the_simulations_that_are_drawn(here: Path) -> None:
    grids = "[{model: [majority, random], n: 4, prompt: [may_exist, none_exist], seeds: 4}]"
    extra = "figures: {trajectories: [{where: {prompt: none_exist, model: random}, seeds: [3, 1]}, {where: {n: 4}}]}\n"
    study = make_study(grids, extra=extra)
    named = [(s.condition.axes["model"], s.condition.axes["prompt"], s.seed) for s in study.named_for("trajectories")]
    assert named[:2] == [("random", "none_exist", 3), ("random", "none_exist", 1)]
    assert {seed for *_, seed in named[2:]} == {0}
    assert len(named) == 6
    text = drawn(study, "trajectories")
    assert "6 of 16 simulations shown: those that the study names." in text
    assert text.count("seed 3: ") == text.count("seed 1: ") == 1
    plain = make_study(grids, play=False)
    assert [s.id for s in plain.simulations()] == [s.id for s in study.simulations()]
    assert plain.plan != study.plan  # so that figures are made anew


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ("{trajectory: [{seeds: [0]}]}", "figures.trajectory: no figure of single simulations; did you mean 'traj"),
        ("{outcome_rates: [{seeds: [0]}]}", "figures.outcome_rates: no figure of single simulations; "),
        ("{trajectories: [{where: {size: 4}}]}", r"figures.trajectories\[0\].where: size: not an axis of this study"),
        ("{trajectories: [{where: {n: 5}}]}", r"figures.trajectories\[0\].where: no condition has n=5; "),
        ("{trajectories: [{}, {seeds: [9]}]}", r"figures.trajectories\[1\].seeds: 9: not a seed of model=majority/"),
        ("{trajectories: [{seeds: [-1]}]}", r"figures.trajectories\[0\].seeds\[0\]: -1: "),
        ("{trajectories: []}", "figures.trajectories: "),
        ("{trajectories: [{seeds: [0, 1, 2, 3, 4, 5, 6]}]}", "28 simulations; at most 24 are drawn; name fewer"),
    ],
)
def test_bad_choices_are_one_line(here: Path, figures: str, message: str) -> None:
    grids = "[{model: [majority, random], n: 4, prompt: [may_exist, none_exist], seeds: 7}]"
    with pytest.raises(UsageError, match=message) as caught:
        make_study(grids, extra=f"figures: {figures}\n", play=False)
    assert "\n" not in str(caught.value)


def test_trajectories_choose_unlike_conditions(here: Path) -> None:
    grids = "[{model: [majority, random], n: [4, 5, 6, 7, 8], b: [0, 1], prompt: [may_exist, none_exist]}]"
    study = make_study(grids, play=False)
    chosen = figures_trajectories.choose(list(study.simulations()), study.axes)
    assert len(chosen) == 8
    assert {s.seed for s in chosen} == {0}
    for axis, values in (("model", 2), ("n", 5), ("b", 2), ("prompt", 2)):
        assert len({s.condition.axes[axis] for s in chosen}) == values


def test_equal_lines_stay_apart() -> None:
    points = [(0, 5.0), (1, 5.0)]
    same = Trajectory({"a": points, "b": points, "c": points}, frozenset("ab"), ("these", "others"), (5.0, 5.0), 1)
    with own_style():
        ax = Figure().subplots()
        figures_trajectories.draw(ax, same, 0.0, 10.0)
    a, b, c = (line for line in ax.lines if list(line.get_xdata()) == [0, 1] and line.get_transform() == ax.transData)
    heights = {line.get_ydata()[0] for line in (a, b, c)}
    assert len(heights) == 3
    assert max(abs(height - 5.0) for height in heights) < 0.2
    assert a.get_marker() != b.get_marker()
    assert a.get_linestyle() != b.get_linestyle()


def test_one_condition_long_names_and_odd_titles_are_drawn(here: Path) -> None:
    title = "Costs $5 and $\\bad{ <script>&amp; \u4e2d\u6587 " + "long " * 20
    study = make_study("[{model: majority, n: 1, prompt: may_exist, seeds: 1}]", title=title, name="x" * 60)
    text = drawn(study, "rates")
    assert "$5 and $" in text
    assert "<script>&amp;" in text
    assert "\u4e2d" in text


def test_a_figure_without_data_says_so(here: Path) -> None:
    study = make_study("[{model: majority, n: 4, prompt: may_exist}]")
    spec = FigureSpec("by_retries", "stacked", "By retries", "", x="retries")
    other = with_specs(study, spec)
    assert "Nothing to draw: retries is not an axis of this study." in drawn(other, "stacked")


def test_rounding_errors_at_the_ends_make_no_negative_lengths() -> None:
    assert figures_panels.bar_lengths(1.0, 0.4, 1.0 - 1e-12) == [[pytest.approx(0.6)], [0.0]]


def test_missing_tables_are_an_error_that_says_what_to_run(here: Path) -> None:
    with pytest.raises(RecordError, match="parley summarize"):
        figures.figures(make_study(play=False))


@pytest.mark.parametrize("module", [figures, figures_page, figures_trajectories, report])
def test_shared_modules_name_no_game(module: object) -> None:
    source = Path(str(module.__file__)).read_text()  # type: ignore[attr-defined]
    template = Path(str(report.__file__)).parent / "templates" / "report.html"
    for text in (source, template.read_text()):
        assert not re.search(r"consensus|deliberation|stag.hunt|honest|byzantine", text, re.IGNORECASE)


@pytest.mark.slow
def test_figures_drawn_in_several_processes_are_the_same_bytes(here: Path) -> None:
    study = make_study()
    drawn = {path: path.read_bytes() for path in figures.figures(study)}
    for path in drawn:
        path.unlink()
    assert len(study.figures) > 1
    assert {path: path.read_bytes() for path in figures.figures(study, processes=2)} == drawn
