"""`tilefarm-server owner`: the weights by which owners share the devices."""

import sys

from db.session import connect, reading, transaction
from db.shares import read_weights, set_weight


def weigh(url: str, *, name: str, weight: float) -> int:
    """The command's exit code: 2 where the weight is none."""
    engine = connect(url)
    try:
        with transaction(engine) as session:
            set_weight(session, name, weight)
    except ValueError as error:
        print(f"tilefarm-server owner: {error}", file=sys.stderr)
        return 2
    finally:
        engine.dispose()
    print(f"{name} has the weight {weight:g}")
    return 0


def list_all(url: str) -> int:
    engine = connect(url)
    with reading(engine) as session:
        weights = read_weights(session)
    engine.dispose()
    for name, weight in sorted(weights.items()):
        print(f"{name:<40}{weight:g}")
    if not weights:
        print("all owners have the weight 1")
    return 0
