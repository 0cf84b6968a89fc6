"""What pyproject.toml cannot say: a wheel holds the workflow, the shipped studies and the lists of packages, too."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("Snakefile", "workflow", "profiles", "slurm", "config", "envs")


class BuildWithWorkflow(build_py):
    """Copies them to where `parley.paths` looks for them outside of a clone."""

    def run(self) -> None:
        """Build the package, and add them unless it is installed as a link to the clone."""
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, "parley", "checkout")
        shutil.rmtree(target, ignore_errors=True)  # of an earlier build
        for name in SHIPPED:
            ignored = shutil.ignore_patterns("__pycache__", "*.sif")
            if Path(name).is_dir():
                shutil.copytree(name, target / name, ignore=ignored)
            else:
                target.mkdir(parents=True)
                shutil.copy(name, target)


setup(cmdclass={"build_py": BuildWithWorkflow})
