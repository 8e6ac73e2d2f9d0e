"""One advice for an encoder that got worse on new data, or may: pages, programs, the terminal and README read it here."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Advice:
    "A method that is advised."
    method: str  # as `compare` calls it
    program: str # as Python calls it
    title: str   # in words


# For who trains again: the best on average over new kinds of text, and not for each of them.
GENERAL = Advice("outreg-texts:1", 'OutReg(1.0, texts="general")', "OutReg, λ = 1, on general texts")
# Better where such texts are at hand.
LIKE_NEW = Advice("outreg-texts:1", 'OutReg(1.0, texts="new.txt")', "OutReg, λ = 1, on unlabeled texts like the new data")
# For who cannot train: the share of the tuned weights where texts are sentences.
AVERAGED = Advice("wise-ft:0.25", "wise_ft(base, tuned, share=0.25)", "averaged weights, a quarter of them tuned")
STRENGTHS = "0.1 to 1" # of λ, within which it matters little on general texts
LIMITS = (
    "General texts do best on average over new kinds of text, not on each: unlabeled texts like your new data, where you have some, "
    "repair more, and where fine-tuning helps on the new data, as on product offers, general texts give up part of the gain.")
RANKING = "With a ranking loss a strong encoder may need nothing: measure first."
