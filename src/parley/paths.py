"""Every path of Parley. No other module, rule or test spells one out.

Functions return paths relative to the working directory, as Snakemake wants them; within `rooted` or `at_home`, paths
in another folder.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from os.path import isdir
from pathlib import Path
from typing import Literal
from urllib.parse import quote, urlencode

RESULTS = Path("results")
LOGS = Path("logs")
CONFIG = Path("config")
CARDS = Path("cards")
MODELS = "PARLEY_MODELS"  # the variable with the folder of prepared models
STARTED_IN = "PARLEY_STARTED_IN"  # the variable with the folder that a run was started in, if it plays in another
ENVS = Path("envs")
SNAKEFILE = Path("Snakefile")
_PACKAGE = Path(__file__).resolve().parent
IN_CLONE = (_PACKAGE.parents[1] / SNAKEFILE).is_file()
# Where the Snakefile, workflow/, profiles/, config/ and envs/ are: the clone, or what a wheel has of it (setup.py).
CHECKOUT = _PACKAGE.parents[1] if IN_CLONE else _PACKAGE / "checkout"
OWN_MODELS = CHECKOUT / CONFIG / "models.yaml"

_ROOT: ContextVar[Path | None] = ContextVar("parley_root", default=None)
_home = Path()  # where nothing is `rooted`, in all threads


@contextmanager
def rooted(folder: Path) -> Iterator[None]:
    """Within it, paths lie in `folder`, which holds config/ and results/, and not in the working directory.

    That is so in this thread or asyncio task alone: two studies in different folders can be open at once.
    """
    before = _ROOT.set(folder)
    try:
        yield
    finally:
        _ROOT.reset(before)


@contextmanager
def at_home(folder: Path) -> Iterator[None]:
    """Within it, paths lie in `folder` as within `rooted`, but in all threads of this process."""
    global _home
    before, _home = _home, folder
    try:
        yield
    finally:
        _home = before


def root() -> Path:
    """Return the folder of `rooted`, else of `at_home`; "." for the working directory."""
    return _ROOT.get() or _home


def home(study: Path) -> Path:
    """Return the folder of the results of a study file: "." if it is the working directory, else absolute.

    It is the one above its `config`, or Parley's own if the file lies anywhere else in that, or the file's; and the
    working directory for a study that an installed package brought.
    """
    folder = study.parent.resolve()
    if not IN_CLONE and folder.is_relative_to(CHECKOUT):
        return Path()
    if folder.name == CONFIG.name:
        folder = folder.parent
    elif CHECKOUT in folder.parents:
        folder = CHECKOUT
    return Path() if folder == Path.cwd() else folder


def study_file(name: str) -> Path:
    """Return the study file for a name, or the path of a YAML file.

    A name is looked for under config/, in the folder itself, and among the studies that an installed package brought.
    """
    path = Path(os.path.expanduser(name))  # no shell does that after --config study=
    if path.suffix in (".yaml", ".yml"):
        return root() / path
    places = [folder / f"{name}.yaml" for folder in (root() / CONFIG, root())]
    places += [] if IN_CLONE else [CHECKOUT / CONFIG / f"{name}.yaml"]
    return next((file for file in places if os.path.exists(file)), places[0])  # also of a name that is too long


def studies(folder: Path) -> list[str]:
    """Return the names of the studies whose files are in a folder."""
    files = sorted(folder.glob("[!.]*.y*ml")) if isdir(folder) else []  # glob raises if its name is too long
    return [path.stem for path in files if path != models_beside(path) and path.name != "dvc.yaml"]


def study_argument(file: Path) -> str:
    """Return what commands call a study file: its name if it is found by that, else its path from the root.

    Of a file outside the root only the last part: its folders are the machine's matter.
    """
    if file.parent.name == CONFIG.name and study_file(file.stem).resolve() == file.resolve():
        return file.stem
    below = file.resolve().is_relative_to(root().resolve())
    return file.resolve().relative_to(root().resolve()).as_posix() if below else file.name


def study_command(file: Path) -> str:
    """Return what a person types for a study file where the command was started, for messages that are not kept."""
    here, resolved = Path(os.environ.get(STARTED_IN, Path.cwd())), file.resolve()  # jobs are in the folder of results
    if not resolved.is_relative_to(here):
        return shlex.quote(str(resolved))
    return shlex.quote(study_argument(file) if root().resolve() == here else str(resolved.relative_to(here)))


def models_file(study: Path) -> Path:
    """Return the model entries that belong to a study: beside it, else those under config/, else Parley's own."""
    places = [models_beside(study), models_beside(root() / CONFIG / study.name)]
    return next((file for file in (*places, OWN_MODELS) if file.exists()), places[-1])


def models_beside(study: Path) -> Path:
    """Return where the model entries of a study are looked for first."""
    return study.parent / "models.yaml"


def results(study: str) -> Path:
    """Folder of all results of a study."""
    return root() / RESULTS / study


def simulations(study: str) -> Path:
    """Root of the partitioned data set of a study."""
    return results(study) / "simulations"


def pruned(study: str) -> Path:
    """Folder of what `parley prune` took away, by when."""
    return results(study) / ".pruned"


def study_of_record(record: Path) -> Path | None:
    """Return the file of the study whose results here a record is among; None for one elsewhere, or of no study."""
    results = (root() / RESULTS).resolve()
    if not record.resolve().is_relative_to(results):
        return None
    file = study_file(record.resolve().relative_to(results).parts[0])
    return file if file.exists() else None


def journals(study: str) -> Path:
    """Root of the journals of a study."""
    return results(study) / "journals"


# The folders of a condition, as a regular expression: the same for every game and every study.
CONDITION = r"model=[^/]+/n=\d+/b=\d+/prompt=[^/]+/spec=[0-9a-f]{8}"


def condition(axes: Mapping[str, str | int | float], spec: str) -> str:
    """Return where the records of a condition lie below `simulations`; its spec stands for all that has no folder."""
    return f"model={axes['model']}/n={axes['n']}/b={axes['b']}/prompt={axes['prompt']}/spec={spec}"


def conditions(study: str) -> Path:
    """Table of what each spec stands for, beside the records: a row per condition."""
    return results(study) / "conditions.parquet"


def simulation(study: str, condition: str, seed: int | str) -> Path:
    """Record of one simulation; `condition` is what the function of that name returns."""
    # One path from text: joining it part by part took a third of the time of large studies' expansion.
    return Path(f"{root()}/{RESULTS}/{study}/simulations/{condition}/seed={seed}.parquet")


def journal(record: Path) -> Path:
    """Journal of the simulation whose record is `record`; outside the outputs of every rule."""
    parts = list(record.parts)
    if "simulations" not in parts:  # a record elsewhere, named by hand
        return record.with_name(f".{record.stem}.jsonl")
    parts[len(parts) - 1 - parts[::-1].index("simulations")] = "journals"
    return Path(*parts).with_suffix(".jsonl")


def is_record(path: Path) -> bool:
    """Whether a file has the name of a record."""
    return path.name.startswith("seed=") and path.suffix == ".parquet"


def endpoint(study: str, engine: str, shard: int | str, model: str) -> Path:
    """Endpoint file of the server of one model in one shard; `engine` names all models of the shard."""
    return results(study) / "engines" / engine / f"shard={shard}" / f"{model}.json"


def marks(study: str, kind: Literal["shards", "played"]) -> Path:
    """Folder of the marks of a kind; no model can have its name, which begins with a dot."""
    return results(study) / "engines" / f".{kind}"


def mark(study: str, kind: Literal["shards", "played"], engine: str, run: str, shard: int | str) -> Path:
    """Mark of a `run` and a shard: it ties simulations without a server together, or says that they were played."""
    return marks(study, kind) / engine / f"run={run}" / f"shard={shard}"


def paused(study: str, model: str) -> Path:
    """File that says why the games of a model are paused."""
    return results(study) / "paused" / f"{model}.txt"


def budget_lock(study: str) -> Path:
    """File whose lock the process holds that spends a study's budget."""
    return results(study) / "budget.lock"


def processes(folder: Path) -> Path:
    """Folder of what processes tell that work at what is in `folder`: a study's results, or a prepared model."""
    return folder / "processes"


def results_of_endpoint(endpoint: Path) -> Path | None:
    """Return the folder of results that an endpoint file is in; None for one elsewhere."""
    parts = endpoint.parts
    return Path(*parts[:-4]) if len(parts) > 4 and parts[-4] == "engines" else None


def table(study: str, name: str, suffix: str) -> Path:
    """One table: `.parquet` or `.csv`."""
    return results(study) / "tables" / f"{name}{suffix}"


def ledger(study: str) -> Path:
    """Ledger of a study: a block a line."""
    return results(study) / "ledger" / "chain.jsonl"


def ledger_head(chain: Path) -> Path:
    """Head of a ledger, beside it: how many blocks it has, and the hash of the last."""
    return chain.with_name("head.json")


def is_ledger(name: str) -> bool:
    """Whether `name` is that of a ledger's file, and not of a study."""
    return Path(name).suffix == ledger("").suffix


def metrics(study: str) -> Path:
    """Folder of the files that DVC compares between commits."""
    return results(study) / "metrics"


def metric(study: str, condition: str) -> Path:
    """Metrics of one condition, by its name, so that DVC compares them also where a parameter changed."""
    return Path(f"{metrics(study) / condition}.json")


def figure(study: str, name: str, suffix: str, page: int = 1) -> Path:
    """One page of a figure, `.png`, `.svg` or `.pdf`; the first has the name of the figure, others a number."""
    return results(study) / "figures" / f"{name}{f'-{page}' if page > 1 else ''}{suffix}"


def figure_list(study: str, printed: bool = False) -> Path:
    """List of all figures with their pages and captions; `printed` are those that options of the command changed."""
    folder = results(study) / "figures"
    return (folder / "print" if printed else folder) / "figures.json"


def frozen(study_file: Path) -> Path:
    """Preregistration of a study: beside its file, so that it is committed with it."""
    return study_file.with_name(f"{study_file.stem}.frozen.md")


def plan(study: str) -> Path:
    """What the questions of a study can find, as `parley plan` says."""
    return results(study) / "plan" / "plan.csv"


def stamp(study: str, stage: str, plan: str) -> Path:
    """Mark that a stage is done for a plan: the hash over the simulations that it shows. One per stage exists."""
    return results(study) / stage / f"plan-{plan}.json"


def listing(folder: Path) -> Path:
    """List of what Parley wrote into a folder, which is all that it may remove there."""
    return folder / ".parley-files"


def report(study: str) -> Path:
    """Report of a study."""
    return results(study) / "report" / "report.html"


def export(study: str, form: str) -> Path:
    """Folder of what `parley export` writes of a study."""
    return results(study) / "exports" / form


def view(study: str) -> Path:
    """Folder of the explorer of a study: its page, and data files beside it."""
    return results(study) / "view"


def view_page(folder: Path) -> Path:
    """Page of the explorer in its folder."""
    return folder / "index.html"


def benchmark(study: str, stage: str, *parts: str) -> Path:
    """Snakemake's measurements of one job (seconds, memory)."""
    return Path(f"{log(study, stage, *parts)}".removesuffix(".log") + ".benchmark.tsv")


def log(study: str, stage: str, *parts: str) -> Path:
    """Log of one job."""
    return Path(f"{root().joinpath(LOGS, study, stage, *parts)}.log")


def simulation_log(study: str, condition: str, seed: int | str) -> Path:
    """Log of one simulation that asks models, whether or not it is a job of its own."""
    return log(study, "simulate", condition, f"seed={seed}")


def lock(study: str) -> Path:
    """File whose lock the workflow holds while it runs a study."""
    return root() / ".snakemake" / f"parley-{study}.lock"


def prepared_models() -> Path:
    """Folder of all prepared models: a user's own, whatever folder a study is in, unless `MODELS` names another."""
    cache = os.environ.get("XDG_CACHE_HOME", "")
    configured = os.environ.get(MODELS) or os.path.join(
        cache if os.path.isabs(cache) else "~/.cache", "parley", "models"
    )
    folder, here = Path(os.path.abspath(os.path.expanduser(configured))), Path.cwd()
    # Relative where that is shorter: what is in braces above it would be a wildcard of Snakemake's.
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def prepared_model(name: str, source: str) -> Path:
    """Folder of a prepared model; `source` is a hash over where it came from."""
    return prepared_models() / f"{name}-{source}" / "model"


def model_marker(name: str, source: str) -> Path:
    """File that says that a model is prepared, with the SHA-256 of its weights."""
    return prepared_models() / f"{name}-{source}" / "parley-model.json"


def installer() -> Path:
    """Program that installs a list of packages."""
    return CHECKOUT / ENVS / "install.py"


def model_packages(name: str) -> Path:
    """List of the packages that hold the weights of a model, with hashes; only some models have one."""
    return CHECKOUT / ENVS / "models" / f"{name}.txt"


# Addresses of the explorer's views of a study, for marks in figures and rows of the report: what a number is made of.
# They are relative: figures and the report lie in folders beside that of the explorer.


_PAGE = "../view/index.html#/"


def simulations_link(axes: Mapping[str, object], outcome: str | None = None) -> str:
    """Return the address of the list of simulations that have these values of axes, and ended so if `outcome` says."""
    chosen = {f"axis.{axis}": str(value) for axis, value in axes.items()}
    chosen |= {} if outcome is None else {"outcome": outcome}
    return _PAGE + (f"?{urlencode(chosen, quote_via=quote)}" if chosen else "")


def single_link(simulation: str) -> str:
    """Return the address of one simulation, by its id."""
    return f"{_PAGE}game/{quote(simulation, safe='')}"


def compared_link(one: str, other: str) -> str:
    """Return the address of two simulations beside each other, by their ids."""
    return f"{_PAGE}compare/{quote(one, safe='')}/{quote(other, safe='')}"
