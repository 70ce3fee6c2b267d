"""Direct gradients: a direction, a pair weight and a triplet weight instead of a loss to derive them from."""

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
from holdfast.gradients.rule import DirectGradient, build, named, names
from holdfast.gradients.triplets import TripletGeometry
from holdfast.gradients.weights import (
    CircularTripletWeight,
    ConstantPairWeight,
    ConstantTripletWeight,
    CosineTripletWeight,
    DistancePairWeight,
    LinearPairWeight,
    LinearRelative,
    NearerThanNegative,
    NearIdeal,
    PairWeight,
    PositiveMask,
    SigmoidPairWeight,
    SigmoidRelative,
    TripletWeight,
)

__all__ = ["RULES", "Components", "DirectGradient", "Rule", "TripletGeometry", "build", "named", "names"]
__all__ += ["Diagram", "Dissection", "Explanation", "diagram", "dissect", "explain"]
__all__ += ["CosineDirection", "CosineOrthogonal", "Direction", "EuclideanDirection", "EuclideanOrthogonal", "Moves"]
__all__ += ["ConstantPairWeight", "DistancePairWeight", "LinearPairWeight", "LinearRelative", "PairWeight"]
__all__ += ["SigmoidPairWeight", "SigmoidRelative"]
__all__ += ["CircularTripletWeight", "ConstantTripletWeight", "CosineTripletWeight", "TripletWeight"]
__all__ += ["NearIdeal", "NearerThanNegative", "PositiveMask"]
