"""Loss functions."""

from holdfast.config import builder
from holdfast.losses.base import Criterion, Encoded, Loss, register, registry
from holdfast.losses.binomial_deviance import BinomialDeviance
from holdfast.losses.circle import Circle
from holdfast.losses.comparison import Comparison
from holdfast.losses.contrastive import Contrastive
from holdfast.losses.cosine_triplets import SelectivelyContrastive, TripletCosine
from holdfast.losses.energy import Energy
from holdfast.losses.info_nce import InfoNCE, NPair, SupCon
from holdfast.losses.lifted_structure import LiftedStructure
from holdfast.losses.linear import Linear
from holdfast.losses.margin import Margin
from holdfast.losses.memory import Memory
from holdfast.losses.multi_similarity import MultiSimilarity
from holdfast.losses.proxies import ArcFace, ClassLoss, NormalizedSoftmax, ProxyAnchor, ProxyNCA, SoftTriple
from holdfast.losses.s2sd import S2SD
from holdfast.losses.trimmed import Trimmed
from holdfast.losses.triplet import Triplet
from holdfast.losses.tuples import PairLoss, Part, TripletLoss, TupleLoss
from holdfast.losses.unreduced import AveragedLoss, Unreduced, masked_logsumexp, require_positive
from holdfast.mining import Miner
from holdfast.sphere import Mask

build, names = builder(registry), registry.names

__all__ = ["S2SD", "ArcFace", "AveragedLoss", "BinomialDeviance", "Circle", "ClassLoss", "Comparison", "Contrastive"]
__all__ += ["Criterion", "Encoded", "Energy", "InfoNCE", "LiftedStructure", "Linear", "Loss", "Margin", "Mask"]
__all__ += ["Memory", "Miner", "MultiSimilarity", "NPair", "NormalizedSoftmax", "PairLoss", "Part", "ProxyAnchor"]
__all__ += ["ProxyNCA", "SelectivelyContrastive", "SoftTriple", "SupCon", "Trimmed", "Triplet", "TripletCosine"]
__all__ += ["TripletLoss", "TupleLoss", "Unreduced", "build", "masked_logsumexp", "names", "register"]
__all__ += ["require_positive"]
