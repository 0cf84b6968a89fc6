"""Generated problems: right, within their limits, and the same for the same seed."""

import ast
import operator
import re
from fractions import Fraction
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from parley.games.problems.sources import Arithmetic

_OPERATIONS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


def value_of(node: ast.expr, seen: list[Fraction]) -> Fraction:
    """Return what Python's own grammar makes of a calculation; `seen` gets every intermediate value."""
    if isinstance(node, ast.Constant):
        return Fraction(int(str(node.value)))
    assert isinstance(node, ast.BinOp)
    seen.append(_OPERATIONS[type(node.op)](value_of(node.left, seen), value_of(node.right, seen)))
    return seen[-1]


@given(st.integers(2, 6), st.integers(1, 4), st.integers(0, 10**6))
def test_a_calculation_has_integers_all_the_way_and_the_answer_of_its_grammar(
    steps: int, digits: int, seed: int
) -> None:
    problem = Arithmetic(steps=steps, digits=digits).problem(seed)
    text = re.fullmatch(r"What is ([0-9+*/ -]+)\?", problem.question)
    assert text
    seen: list[Fraction] = []
    assert str(value_of(ast.parse(text[1], mode="eval").body, seen)) == problem.answer
    assert len(seen) == steps
    assert all(value.denominator == 1 for value in seen)
    assert all(2 <= int(number) < 10**digits for number in re.findall(r"[0-9]+", text[1]))
