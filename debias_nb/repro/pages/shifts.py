"A table of many shifts: where methods gain and lose against the base encoder."
import pandas as pd

from .frame import only
from .tables import gains_and_losses


def with_signs(
    found: pd.DataFrame, # of `differences`, from one method
) -> pd.DataFrame: # the same, and `sign`
    """Add which differences are significant: 1 or -1 after Holm's correction over the shifts of an encoder and a method, 0
    for the others; tests of the kind that was trained on are corrected apart."""
    families = found.groupby(["encoder", "method", "shift"], sort=False)
    signs = [gains_and_losses(own) for _, own in families]
    return found.assign(sign=pd.concat(signs) if signs else 0)


def standing(
    found: pd.DataFrame, # of `with_signs`, from the base encoder
) -> pd.DataFrame: # encoder, method, losses, gains, shifts, worst, mean, own gains, own tests, own
    """Of each method and encoder how many shifts are significantly below and above the base encoder, the worst and the mean
    of them, and the mean on the tests of the training kinds, with how many of these are significant gains."""
    rows = []
    for (encoder, method), own in found.groupby(["encoder", "method"], sort=False):
        out, inside = only(own, shift="ood"), only(own, shift="iid")
        signs = out.sign.value_counts()
        row = {"encoder": encoder, "method": method, "losses": int(signs.get(-1, 0)), "gains": int(signs.get(1, 0))}
        row |= {"shifts": len(out), "worst": out.difference.min(), "mean": out.difference.mean()}
        row |= {"own gains": int((inside.sign > 0).sum()), "own tests": len(inside), "own": inside.difference.mean()}
        rows.append(row)
    return pd.DataFrame(rows)
