"""Direct gradients: a direction, a pair weight and a triplet weight instead of a loss to derive them from."""

from holdfast.gradients.building import build, named, names
from holdfast.gradients.directions import Direction
from holdfast.gradients.dissection import Dissection, dissect
from holdfast.gradients.explanation import Explanation, explain
from holdfast.gradients.named import Components, Rule
from holdfast.gradients.pair_weights import PairWeight
from holdfast.gradients.rule import DirectGradient
from holdfast.gradients.triplet_weights import PositiveMask, TripletWeight

__all__ = [
    "Components",
    "DirectGradient",
    "Direction",
    "Dissection",
    "Explanation",
    "PairWeight",
    "PositiveMask",
    "Rule",
    "TripletWeight",
    "build",
    "dissect",
    "explain",
    "named",
    "names",
]
