"""A folder with a study of one scripted simulation, and the lives that play it one after the other."""

import json
import shutil
import zlib
from pathlib import Path

import yaml

from parley import paths
from parley.play.record import read_summary
from parley.study import load_study
from support.mortal import End, Life, Nursery

Key = tuple[int, str, str, int]

STUDY = {
    "game": "consensus",
    "parameters": {"max_rounds": 2, "stop_threshold": 1},
    "grids": [{"model": "majority", "n": 3, "b": 1, "prompt": "may_exist", "byzantine": "random"}],
}
MODELS = {"models": {"tiny": {"source": {"repo": "owner/tiny", "revision": "a" * 40}}}}


class World:
    """A folder with a study of one simulation, and the lives that play it one after the other."""

    def __init__(self, nursery: Nursery, folder: Path) -> None:
        self.nursery = nursery
        self.folder = folder / "world"
        self.notes = folder / "notes"
        self.folder.mkdir(parents=True)
        (self.folder / "models.yaml").write_text(yaml.safe_dump(MODELS))
        (self.folder / "small.yaml").write_text(yaml.safe_dump(STUDY))
        self._record = next(load_study(self.folder / "small.yaml").simulations()).record("small")
        self.record = self.folder / self._record
        self.journal = self.folder / paths.journal(self._record)
        self.kept = self.folder / paths.kept_record(self._record)

    def life(self, **how: object) -> Life:
        arguments = ["simulate", "small.yaml", str(self._record)]
        return Life(str(self.folder), arguments, str(self.notes), **how)  # type: ignore[arg-type]

    def live(self, **how: object) -> End:
        return self.nursery.live(self.life(**how))

    def reset(self) -> None:
        shutil.rmtree(self.folder / "results", ignore_errors=True)

    def journaled(self) -> set[Key]:
        """Return what the journal answers: its whole lines, read without Parley's code."""
        found = set()
        for line in self.journal.read_bytes().splitlines(keepends=True)[1:] if self.journal.exists() else []:
            if line.endswith(b"\n") and int(line[:8], 16) == zlib.crc32(line[9:-1]):
                entry = json.loads(line[9:])
                found.add((entry["round"], entry["phase"], entry["agent"], entry["attempt"]))
        return found

    def finished(self) -> bool:
        return self.record.exists() or self.kept.exists()

    def answered(self, undisturbed: "Undisturbed") -> set[Key]:
        """Return what need not be asked again."""
        return set(undisturbed.asked) if self.finished() else self.journaled()

    def files(self) -> list[str]:
        """Return the files under results, relative to the study's folder."""
        root = self.folder / "results" / "small"
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


class Undisturbed:
    """What a run that nobody disturbs gives: the measure of all others."""

    def __init__(self, world: World) -> None:
        end = world.live()
        assert (end.status, end.err) == (0, [])
        self.steps = end.steps
        self.asked = end.asked
        self.digest = read_summary(world.record).digest
        self.files = world.files()
        world.reset()


def finish(world: World, undisturbed: Undisturbed, lost_record: bool = False, **how: object) -> None:
    """Run the same command again, undisturbed; check that nothing was lost and nothing is asked again."""
    if lost_record:  # what Snakemake does with the output of a job that died
        world.record.unlink(missing_ok=True)
    answered = world.answered(undisturbed)
    end = world.live(**how)
    assert (end.status, end.err) == (0, [])
    assert end.asked == [key for key in undisturbed.asked if key not in answered]
    assert read_summary(world.record).digest == undisturbed.digest
    assert world.files() == undisturbed.files
