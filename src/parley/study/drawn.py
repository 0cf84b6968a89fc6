"""What a study may say of the simulations that figures of single ones show; not part of any identity."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

KINDS = ("trajectories", "timeline", "network")  # of figures that show single simulations
MOST_DRAWN = 24  # simulations in one figure


class Drawn(BaseModel):
    """Simulations of some conditions."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    where: dict[str, str | int | float | bool] = Field(
        default_factory=dict, description="A value for some of the axes; all conditions that have them are drawn."
    )
    seeds: Annotated[list[Annotated[int, Field(strict=True, ge=0)]], Field(min_length=1)] | None = Field(
        default=None, description="Which simulations of each of them; default: the one with the lowest seed."
    )


Choices = Mapping[str, list[Drawn]]
