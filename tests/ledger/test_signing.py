import subprocess
import sys

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from parley.ledger.signing import AgentKey
from support.chains import SIMULATIONS

KEY = AgentKey(SIMULATIONS[0], "agent_1")
CONTENT = {"answer": 7, "why": "a < b"}


def test_each_agent_of_each_simulation_has_a_key_of_its_own_and_always_the_same() -> None:
    again = AgentKey(SIMULATIONS[0], "agent_1")
    assert again.sign(0, 1, CONTENT) == KEY.sign(0, 1, CONTENT)
    # Written down, so that a change of how keys are derived is seen: chains that exist would no longer hold.
    assert again.public == KEY.public == "52bab441f41f3d453cd3e9b0bdfeafd9d1fdad7a248d036dab7105bb3debf857"
    keys = {AgentKey(simulation, agent).public for simulation in SIMULATIONS for agent in ("agent_1", "agent_2")}
    assert len(keys) == 2 * len(SIMULATIONS)


def test_a_signature_is_of_one_content_in_one_place() -> None:
    signature = KEY.sign(0, 1, CONTENT)
    assert KEY.verify(0, 1, dict(reversed(CONTENT.items())), signature)  # the same JSON
    for key, session, number, content in [
        (KEY, 1, 1, CONTENT),
        (KEY, 0, 2, CONTENT),
        (KEY, 0, 1, {**CONTENT, "answer": 8}),
        (AgentKey(SIMULATIONS[0], "agent_2"), 0, 1, CONTENT),
        (AgentKey(SIMULATIONS[1], "agent_1"), 0, 1, CONTENT),
    ]:
        assert not key.verify(session, number, content, signature)


def test_what_is_signed_is_ed25519_of_the_documented_message() -> None:
    """Checked with the library alone, as anyone can who reads docs/reference/ledger.md."""
    message = (
        '{"agent":"agent_1","content":{"answer":7,"why":"a < b"},"domain":"parley/utterance/1","round":3,"session":2,'
        f'"simulation":"{SIMULATIONS[0]}"}}'
    )
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(KEY.public))
    public.verify(bytes.fromhex(KEY.sign(2, 3, CONTENT)), message.encode())


@pytest.mark.slow
def test_the_commands_that_need_no_ledger_do_not_import_cryptography() -> None:
    program = "import sys, parley.cli, parley.play.simulate; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
