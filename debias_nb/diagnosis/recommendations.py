"""The advice for an encoder that got worse on new data, or may: pages, programs, terminal and README read it here."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    "A method that is recommended."
    method: str  # as `compare` calls it
    program: str # as Python calls it
    title: str   # in words


# For who has neither such texts nor wants averages: narrows the range of outcomes on new kinds of sentences.
GENERAL = Advice("outreg-texts:1", 'OutReg(1.0, texts="general")', "OutReg, λ = 1, on general texts")
USUAL_STRENGTHS = "0.1 to 1" # of λ, within which it matters little on general texts
SHARE = .25 # mixing weight of the tuned weights, for who has no such texts or cannot train, and has sentences
LIMITS = (
    "If you have unlabeled texts like your new data, regularize on those. Without such texts, or without training, "
    "average the weights with the base encoder's. General texts come last: from Quora to AskUbuntu, where fine-tuning "
    "hurt, they repaired less than texts like the new data, and in the reverse direction as much. On new sentences "
    "they narrow the range of outcomes, and how much depends on the encoder and the training set. On product offers, "
    "where fine-tuning helped, they narrow it less or not at all, and give up part of the gain; texts like the new "
    "data repaired nothing there.")
RANKING_ADVICE = "A strong encoder trained with a ranking loss may need no regularizer: measure first."
