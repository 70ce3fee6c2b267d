"""Direct gradients: a direction, a pair weight and a triplet weight instead of a loss to derive them from."""

from holdfast.gradients.building import build, named, names
from holdfast.gradients.directions import (
    CosineDirection,
    CosineOrthogonal,
    Direction,
    EuclideanDirection,
    EuclideanOrthogonal,
    Moves,
)
from holdfast.gradients.dissection import Dissection, dissect
from holdfast.gradients.explanation import Diagram, Explanation, diagram, explain
from holdfast.gradients.named import RULES, Components, Rule
from holdfast.gradients.pair_weights import (
    ConstantPairWeight,
    DistancePairWeight,
    LinearPairWeight,
    LinearRelative,
    PairWeight,
    SigmoidPairWeight,
    SigmoidRelative,
)
from holdfast.gradients.rule import DirectGradient
from holdfast.gradients.triplet_weights import (
    CircularTripletWeight,
    ConstantTripletWeight,
    CosineTripletWeight,
    NearerThanNegative,
    NearIdeal,
    PositiveMask,
    TripletWeight,
)
from holdfast.gradients.triplets import TripletGeometry

__all__ = [
    "RULES",
    "CircularTripletWeight",
    "Components",
    "ConstantPairWeight",
    "ConstantTripletWeight",
    "CosineDirection",
    "CosineOrthogonal",
    "CosineTripletWeight",
    "Diagram",
    "DirectGradient",
    "Direction",
    "Dissection",
    "DistancePairWeight",
    "EuclideanDirection",
    "EuclideanOrthogonal",
    "Explanation",
    "LinearPairWeight",
    "LinearRelative",
    "Moves",
    "NearIdeal",
    "NearerThanNegative",
    "PairWeight",
    "PositiveMask",
    "Rule",
    "SigmoidPairWeight",
    "SigmoidRelative",
    "TripletGeometry",
    "TripletWeight",
    "build",
    "diagram",
    "dissect",
    "explain",
    "named",
    "names",
]
