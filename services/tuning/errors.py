"""The tuner service's error tree.

TuningError
├── LeaseLostError       another replica holds the search now; this one forgets it
├── BudgetMovedError     a budget changed between decision and charge; the next tick decides anew
├── BrokerError          the broker did not take or give a message
└── SearchChildError     the search child died, hung, or answered with an error
    └── FarmError        there was no child to ask: the fork server's fault, not the search's
"""


class TuningError(Exception):
    """Root of what the tuner service raises."""


class LeaseLostError(TuningError):
    """The lease of a search is no longer held."""

    def __init__(self, search_id: int) -> None:
        super().__init__(f"the lease of search {search_id} is lost")
        self.search_id = search_id


class BudgetMovedError(TuningError):
    """A budget changed between the decision and the charge."""


class BrokerError(TuningError):
    """The broker did not take or give a message."""


class SearchChildError(TuningError):
    """The search child died, hung, or answered with an error."""


class FarmError(SearchChildError):
    """No search child could be made."""
