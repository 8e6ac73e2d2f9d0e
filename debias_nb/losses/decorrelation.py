"""The loss of feature decorrelation for fixed features (Zhong et al. 2022, Eq. 6 to 8), as a function of the weights alone.

Value and gradient are in closed form; the notebook on SCAN derives them, and compares them with autograd.
"""
from typing import Literal, get_args

import torch

from ..checks import check_known

Form = Literal["moment", "paper", "matched"]
FORMS = get_args(Form)


class _Loss(torch.autograd.Function):
    "The loss with its gradient in closed form."
    @staticmethod
    def forward(ctx, weights, loss):
        value, gradient = loss.slope(weights)
        ctx.save_for_backward(gradient)
        return value

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0], None


def center(z, weights):
    "Weight the (..., n, d) values of n samples and subtract their mean, as in Eq. 6."
    u = z * weights[:, None]
    mean = u.mean(-2, keepdim=True)
    return u - mean


class Decorrelation:
    """Loss of Eq. 8 as a function of the weights alone, for fixed features, with its gradient (`slope`).

    `decorrelation` chooses one of two ways to compute it.
    """
    def __init__(self, features, form):
        z = features.permute(2, 0, 1) # (m, n, d)
        if form == "moment":
            z = z - z.mean(1, keepdim=True) # the loss does not notice, rounding does
        elif form == "paper":
            z = z.transpose(0, 1)
            z = z.flatten(1)[None] # (1, n, m d), the features of each function side by side
        self.form = form
        self.n = z.shape[1]
        self.freedom = self.n - 1
        self.z = z.contiguous() # products of strided matrices copy them each time
        by_sample = self.z.transpose(0, 1)
        self.wide = by_sample.flatten(1) # (n, m d)

    def __call__(self, weights: torch.Tensor) -> torch.Tensor: # (n,) -> scalar that can be differentiated once
        return _Loss.apply(weights, self)

    def slope(self, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]: # (n,) -> value, and its gradient (n,)
        if self.form != "moment":
            return self.as_printed(weights)
        p = weights / weights.sum()
        each = self.moment(p)
        value = p @ each
        slope = (each - value) / weights.sum()
        half = value / 2
        return half, slope


class DirectDecorrelation(Decorrelation):
    "Loss from the d × d matrices of covariances."
    def __init__(self, features, form):
        super().__init__(features, form)
        self.across = self.z.mT.contiguous() # (m, d, n)
        _, d, m = features.shape
        same = torch.eye(d)
        if form == "paper":
            same = same.repeat(m, m)
        self.apart = 1 - same.to(features) # pairs of different features

    def moment(self, p):
        "Return the (n,) contributions of the samples, whose mean under p is the sum of squares; p has sum 1."
        mean = p @ self.wide
        mean = mean.view_as(self.z[:, 0]) # (m, d)
        column = mean[:, :, None]
        row = mean[:, None]
        apart = torch.baddbmm(column * row, self.across * p, self.z, beta=-1)
        apart.mul_(self.apart)
        towards = apart @ column
        along = torch.baddbmm(towards.mT, self.z, apart, beta=-2)
        along.mul_(self.z)
        constant = (row @ towards).sum()
        return along.sum((0, 2)) + constant

    def as_printed(self, weights):
        u = center(self.z, weights)
        covariance = u.mT @ u / self.freedom
        apart = covariance * self.apart
        squares = apart.square()
        half = squares.sum() / 2
        contributions = u @ apart * self.z
        slope = contributions.sum((0, 2))
        return half, 2 * slope / self.freedom


class GramDecorrelation(Decorrelation):
    """Loss from the n × n matrices of products of samples, K = Z Zᵀ of each function.

    With P = diag(p), a = K p and c = pᵀ K p the covariances Zᵀ (P − p pᵀ) Z have the sum of squares pᵀ (K∘K) p − 2 Σᵢ
    pᵢ aᵢ² + c²; the squared variances are taken off.
    """
    def __init__(self, features, form):
        super().__init__(features, form)
        self.gram = self.z @ self.z.mT # (m, n, n)
        if form == "moment":
            self.squared = self.gram.square().sum(0)
            self.stacked = self.gram.flatten(0, 1) # one product of a matrix and a vector serves all functions
            self.squares = self.wide.square()
        elif form == "paper":
            self.of_feature = features.transpose(0, 1).contiguous() # (d, n, m)

    def moment(self, p):
        # of all pairs, as in the appendix: (n,) of which the weighted mean is the sum of squares
        a = (self.stacked @ p).view(-1, self.n) # (m, n)
        c = a @ p
        weighted = (a * p).flatten()
        each = self.squared @ p
        each -= 2 * weighted @ self.stacked
        each += 2 * c @ a
        each -= a.square().sum(0)
        each = each + (a.square() @ p - c.square()).sum()

        # without the variances
        mean = p @ self.wide
        of_mean = mean.square()
        variance = p @ self.squares - of_mean
        each -= self.squares @ variance
        shift = variance * mean
        each += 2 * self.wide @ shift
        return each - variance @ of_mean

    def as_printed(self, weights):
        n = self.n - 1
        left = self.gram * weights # z_i · u_k, u = w z
        left -= left.mean(-1, keepdim=True)
        deviations = left * weights[:, None]
        deviations -= deviations.mean(-2, keepdim=True)
        of_itself, own = self._with_itself(weights)

        squares = deviations.square()
        of_all = squares.sum() / n**2
        value = of_all - of_itself
        slope = (left * deviations).sum((0, 2))
        slope = 2 * slope / n**2 - 2 * own / n
        half = value / 2
        return half, slope

    def _with_itself(self, weights):
        "Return the sum of squares of pairs of a feature with itself, and (n,) half its slope times n - 1."
        if self.form == "matched":
            z = self.z
            u = center(z, weights)
            squares = (u * u).sum(1)
            covariance = squares / self.freedom # (m, d): each function with itself
            own = (z * u) @ covariance[..., None]
        else:
            z = self.of_feature
            u = center(z, weights)
            products = u.mT @ u
            covariance = products / self.freedom # (d, m, m)
            own = z * (u @ covariance)
        own = own.sum((0, 2))
        squares = covariance.square()
        return squares.sum(), own


def decorrelation(
    features: torch.Tensor, # (n, d, m): m functions of each of d features
    form: Form = "moment",  # `moment` is of a weighted sample, `paper` as Eq. 6 and 7, `matched` these with functions matched
) -> Decorrelation:
    """Return the loss of Eq. 8 for fixed features.

    `paper` pairs each function of a feature with each of another; the other two pair the k-th with the k-th, as the
    public code does. Raises `ValueError` for unknown names.
    """
    check_known("form", form, FORMS)
    n, d, m = features.shape
    columns = d * m if form == "paper" else d # of a covariance
    most = max(d, d**2 / 4) if form == "moment" else columns # by measurement: n × n matrices also win up to a quarter of d²
    way = GramDecorrelation if n < most else DirectDecorrelation
    return way(features, form)
