"""What a study may set of its ledger."""

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 2  # of a block: chains of another are made anew from the records
MAX_DIFFICULTY = 24  # 17 million hashes for a block: half a minute


class LedgerSettings(BaseModel):
    """How the ledger of a study is made; not part of any identity."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    difficulty: int = Field(
        default=0,
        ge=0,
        le=MAX_DIFFICULTY,
        description="Proof of work: zero bits that the hash of each block begins with; each doubles the work.",
    )
