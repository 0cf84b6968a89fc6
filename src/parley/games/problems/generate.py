"""Problems made from a seed: arithmetic, and Wason's cards. No model has seen them, and they need no network."""

import numpy as np

from parley.games.problems.cards import VOWELS, question, right_cards
from parley.games.problems.problem import Problem

_CONSONANTS = "BCDFGHJKLMNPQRSTVWXZ"
_EVEN, _ODD = "2468", "3579"  # no 0 and no 1, which look like letters


def arithmetic(problem_id: str, steps: int, digits: int, rng: np.random.Generator) -> Problem:
    """Return a calculation of `steps` operations on numbers of up to `digits` digits.

    Multiplication and division come first, as usual; every intermediate value is an integer, and nothing is divided
    by 1 or by itself.
    """
    largest = 10**digits - 1
    total, sign = 0, 1
    term = _operand(largest, rng)
    text = str(term)
    for _ in range(steps):
        operation = "+-*/"[int(rng.integers(4))]
        divisors = [d for d in range(2, min(largest, term - 1) + 1) if term % d == 0] if operation == "/" else []
        if operation == "/" and divisors:
            operand = divisors[int(rng.integers(len(divisors)))]
            term //= operand
        else:
            operand = _operand(largest, rng)
            if operation == "*" and term * operand <= largest**2:
                term *= operand
            else:  # also what cannot be divided, and products that would grow without bound
                operation = operation if operation in "+-" else "+"
                total += sign * term
                term, sign = operand, -1 if operation == "-" else 1
        text += f" {operation} {operand}"
    return Problem(problem_id, "number", f"What is {text}?", str(total + sign * term))


def wason(problem_id: str, rng: np.random.Generator) -> Problem:
    """Return a card problem with one vowel, one consonant, one even and one odd digit, in any order."""
    kinds = (VOWELS, _CONSONANTS, _EVEN, _ODD)
    drawn = [kind[int(rng.integers(len(kind)))] for kind in kinds]
    cards = tuple(drawn[index] for index in rng.permutation(len(drawn)))
    return Problem(problem_id, "cards", question(cards), right_cards(cards), cards)


def _operand(largest: int, rng: np.random.Generator) -> int:
    return int(rng.integers(2, largest + 1))
