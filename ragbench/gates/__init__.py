"""Gates: conditions that a run has to meet; a class per kind, each passed, failed or undecided."""

from ragbench.registry import Family

# Kind of gate -> its class. Which one an entry of `gates` is, its keys say: see `config.gates`.
GATES = Family(
    noun="gate",
    group="ragbench.gates",
    table={
        "limit": "ragbench.gates.limit:Limit",
        "drop": "ragbench.gates.drop:Drop",
        "not_worse": "ragbench.gates.drop:NotWorse",
        "queries_worse": "ragbench.gates.drop:QueriesWorse",
        "cost": "ragbench.gates.limit:Cost",
        "failed": "ragbench.gates.failed:Failed",
        "certificate": "ragbench.gates.certificate:Certificate",
        "cheapest": "ragbench.gates.cheapest:Cheapest",
    },
)
