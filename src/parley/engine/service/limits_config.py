"""How much a service allows, what its tokens cost, and what a study may spend. None of it can change a reply."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

from parley.policies import Tokens

# How long a request may take, its whole answer included, where its model's entry does not say.
SERVICE_SECONDS = 1800.0
OWN_SECONDS = 7200.0  # a request waits behind all others of the shard; on a slow CPU that can be most of an hour
MOST_IN_BATCH = 50_000  # that OpenAI takes
DEFAULT_CONCURRENT = 64  # requests that are worth having in flight where nothing says how many may be
_PerMinute = Annotated[int, Field(strict=True, ge=1, le=10**12)]
_PerMillion = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class ServiceLimits(BaseModel):
    """How much of a service all processes that work in one folder may use together."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrent: Annotated[int, Field(strict=True, ge=1, le=100_000)] | None = Field(
        default=None, description="Requests in flight at once, or in one batch."
    )
    requests_per_minute: _PerMinute | None = Field(default=None, description="Requests begun in any minute.")
    tokens_per_minute: _PerMinute | None = Field(
        default=None, description="Tokens of prompts and replies of the requests begun in any minute."
    )
    patience_seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        default=600.0,
        description="How long a request that the service cannot answer for now (429, 5xx, a lost connection) is tried "
        "again; 0 gives up at once, and after 30 s a service that never answered.",
    )
    batch_hours: Annotated[int, Field(strict=True, ge=1, le=168)] = Field(
        default=24,
        description="Within how many hours a batch is to be answered: what is asked of the service "
        "(`completion_window`), and an hour later the batch is canceled.",
    )

    @property
    def in_batch(self) -> int:
        """How many requests a batch has at most."""
        return min(self.concurrent or MOST_IN_BATCH, MOST_IN_BATCH)

    @property
    def any(self) -> bool:
        """Whether requests have to wait for their turn."""
        return any(bound is not None for bound in self.bounds.values())

    @property
    def bounds(self) -> dict[str, int | None]:
        """What is shared by all who use the service."""
        return self.model_dump(include={"concurrent", "requests_per_minute", "tokens_per_minute"})

    def divided(self, parts: int) -> "ServiceLimits":
        """Return one of so many equal parts; raises pydantic's ValidationError if nothing of a bound would be left."""
        shares = {key: None if bound is None else bound // parts for key, bound in self.bounds.items()}
        return ServiceLimits.model_validate({**self.model_dump(), **shares})


class Price(BaseModel):
    """What a million tokens of a model cost, in whatever currency the study's budget has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt: _PerMillion = Field(description="A million tokens of prompts.")
    completion: _PerMillion = Field(description="A million tokens of replies.")
    cached: _PerMillion | None = Field(
        default=None, description="A million tokens of prompts that the service had in its cache; default: `prompt`."
    )

    def of(self, tokens: Tokens) -> float:
        """Return what `tokens` cost."""
        cached = self.prompt if self.cached is None else self.cached
        from_cache = min(tokens.cached, tokens.prompt)
        fresh = (tokens.prompt - from_cache) * self.prompt + tokens.completion * self.completion
        return (fresh + from_cache * cached) / 1e6

    @property
    def in_batches(self) -> "Price":
        """What is paid where requests go in batches: half."""
        return Price(**{key: amount and amount / 2 for key, amount in self.model_dump().items()})

    def most(self, tokens: Tokens) -> float:
        """Return what `tokens` cost at most, wherever the service takes the prompt from."""
        return max(self.of(tokens), self.of(Tokens(tokens.prompt, tokens.completion, tokens.prompt)))


class BudgetLimits(BaseModel):
    """What a study may spend; not part of any identity."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: Annotated[int, Field(strict=True, ge=1, le=10**15)] | None = Field(
        default=None, description="Tokens of prompts and replies."
    )
    cost: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)] | None = Field(
        default=None, description="Money, by the `price` of the models' entries and in its currency."
    )

    @model_validator(mode="after")
    def _says_something(self) -> "BudgetLimits":
        if self.tokens is None and self.cost is None:
            raise ValueError("give tokens, or cost, or both")
        return self
