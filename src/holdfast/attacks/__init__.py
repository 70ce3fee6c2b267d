"""Attacks on embeddings: one optimiser, many goals."""

from holdfast.attacks.base import BoundGoal, Goal, register, registry
from holdfast.attacks.budget import Budget
from holdfast.attacks.forward import Attacked, Crafted, worst
from holdfast.attacks.goals.adml import Alignment, AlignmentUniformity, TripletGap, Uniformity
from holdfast.attacks.goals.collapseness import MisplaceAnchors, MixCandidates
from holdfast.attacks.goals.composed import BoundGoals, Sum, WorstOf
from holdfast.attacks.goals.matching import (
    GreedyTopOneMisranking,
    LearningToMisrank,
    Misrank,
    NearestWrong,
    SoftMisrank,
    UntilMissed,
)
from holdfast.attacks.goals.ranking import CandidateDown, CandidateUp, GreedyTopOne, QueryDown, QueryUp
from holdfast.attacks.goals.shift import EmbeddingShift, Shift
from holdfast.attacks.goals.targets import BoundTargets, MultiTarget, SingleTarget, TargetedMismatch, Unadversarial
from holdfast.attacks.goals.tuples import Collapse, RaiseHardness
from holdfast.attacks.one_call import AttackResult, attack, gallery
from holdfast.attacks.patch import patch, patch_search, random_patch
from holdfast.attacks.pgd import craft, pgd, sweep
from holdfast.attacks.references import References
from holdfast.attacks.square import square
from holdfast.config import builder

build, names = builder(registry), registry.names

__all__ = ["BoundGoal", "BoundGoals", "BoundTargets", "Budget", "Goal", "References", "build", "names", "register"]
__all__ += ["AttackResult", "Attacked", "Crafted", "attack", "craft", "gallery", "pgd", "square", "sweep", "worst"]
__all__ += ["CandidateDown", "CandidateUp", "GreedyTopOne", "QueryDown", "QueryUp", "TargetedMismatch"]
__all__ += ["EmbeddingShift", "GreedyTopOneMisranking", "LearningToMisrank", "Misrank", "NearestWrong", "SoftMisrank"]
__all__ += ["patch", "patch_search", "random_patch"]
__all__ += ["Alignment", "AlignmentUniformity", "Collapse", "RaiseHardness", "Shift", "TripletGap", "Uniformity"]
__all__ += ["MisplaceAnchors", "MixCandidates"]
__all__ += ["MultiTarget", "SingleTarget", "Sum", "Unadversarial", "UntilMissed", "WorstOf"]
