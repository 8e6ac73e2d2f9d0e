"""The advice for an encoder that got worse on new data, or may: pages, programs, terminal and README read it here."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    "A method that is recommended."
    method: str  # as `compare` calls it
    program: str # as Python calls it
    title: str   # in words


# For those who train again: narrows the range of outcomes on new kinds of sentences, and is not best on each kind.
GENERAL = Advice("outreg-texts:1", 'OutReg(1.0, texts="general")', "OutReg, λ = 1, on general texts")
# Better where such texts are at hand.
LIKE_NEW = Advice("outreg-texts:1", 'OutReg(1.0, texts="new.txt")',
                  "OutReg, λ = 1, on unlabeled texts like the new data")
STRENGTHS = "0.1 to 1" # of λ, within which it matters little on general texts
SHARE = .25 # mixing weight of the tuned weights, for who cannot train and has sentences
LIMITS = (
    "On new sentences, regularizing on general texts narrows the range of outcomes; by how much depends on the encoder "
    "and the training set. On product offers it narrows the range less or not at all, and gives up part of the gain "
    "where fine-tuning helps. If you have unlabeled texts like your new data, regularize on those: they repair more.")
RANKING = "A strong encoder trained with a ranking loss may need no regularizer: measure first."
