"""Several processes that train one model: who has which shard, and what they tell each other."""

from holdfast.processes.group import ALONE, Blocks, Processes, current_processes, use_processes
from holdfast.processes.joining import joined, starts_first

__all__ = ["ALONE", "Blocks", "Processes", "current_processes", "joined", "starts_first", "use_processes"]
