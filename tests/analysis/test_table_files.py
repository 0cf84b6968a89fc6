"""What is written of a table: the same on all processors."""

import pandas as pd

from parley.analysis.tables import read_table, write_table
from support.studies import StudyFactory


def test_estimates_that_differ_in_the_sixteenth_digit_only_are_written_alike(study_factory: StudyFactory) -> None:
    # As two processors gave them for the same records.
    study = study_factory({})
    written = []
    for p in (0.10346204867862167, 0.10346204867862141):
        rows = [{"kind": "outcome", "p": p, "n": 3}, {"kind": "outcome", "p": float("nan"), "n": 4}]
        write_table(pd.DataFrame(rows), study, "effects")
        written.append(read_table("small", "effects"))
    pd.testing.assert_frame_equal(*written, check_exact=True)
    assert written[0]["p"][0] == 0.1034620487
    assert written[0]["p"].isna().tolist() == [False, True]
    assert written[0]["n"].tolist() == [3, 4]


def test_what_was_recorded_is_written_as_it_is(study_factory: StudyFactory) -> None:
    write_table(pd.DataFrame([{"wall_seconds": 0.10346204867862167}]), study_factory({}), "simulations")
    assert read_table("small", "simulations")["wall_seconds"][0] == 0.10346204867862167
