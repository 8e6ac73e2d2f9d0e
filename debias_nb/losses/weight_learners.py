"""Learners of sample weights: as the paper prints them, as in its public code, and our own."""
import torch
import torch.nn.functional as F


class PaperLearner:
    "Learner of free weights, without a constraint on their sum (Eq. 9); base class of the other two."
    draws_each_step = False # whether each step draws new random functions
    momentum = 0.

    def __init__(self, features, memory_weights, penalty, classes=None):
        self.n = len(features)
        self.memory_weights = memory_weights
        self.penalty = penalty
        self.theta = features.new_ones(self.n).requires_grad_()

    def local(self):
        "Return the (n,) weights of the batch."
        return self.theta

    def all(self):
        "Return the weights of the batch and of the memory."
        return torch.cat([self.local(), self.memory_weights])

    def memory_values(self):
        "Return what a memory stores of the weights."
        return self.local()

    def optimizer(self, lr):
        return torch.optim.SGD([self.theta], lr, self.momentum)

    def rate(self, lr, step, steps):
        return lr

    def objective(self, loss):
        return loss

    def slope(self, loss, uniform):
        "Store the gradient of the objective in theta."
        self.theta.grad = None
        value = loss(self.all())
        self.objective(value).backward()


class ReleasedLearner(PaperLearner):
    "Learner of the public code: one softmax over batch and memory, new functions in each step, a tenth of the rate halfway."
    draws_each_step = True
    momentum = .9

    def local(self):
        share = self.theta[:, None].softmax(0) # a column: the sum of a vector would round otherwise
        return (share * self.n)[:, 0]

    def all(self):
        logits = torch.cat([self.theta, self.memory_weights])
        return logits.softmax(0)

    def memory_values(self):
        return self.theta

    def rate(self, lr, step, steps):
        return lr / 10 if 2 * step >= steps else lr

    def objective(self, loss):
        spread = (self.local() / self.n).square().sum()
        return 2 * loss / self.penalty + spread # both orders of each pair


class FixedLearner(PaperLearner):
    "Learner with a softmax within each class, whose share of the weight is fixed, and a penalty on the variance of weights."
    def __init__(self, features, memory_weights, penalty, classes=None):
        super().__init__(features, memory_weights, penalty)
        if classes is None:
            classes = torch.zeros_like(self.theta)
        member = F.one_hot(classes.long()).to(features)
        self.member = member[:, member.sum(0) > 0] # (n, c) classes that the batch has
        self.mass = self.member.sum(0) # as much weight as a class has samples

    def shares(self):
        "Return the (n, c) shares of samples in their classes."
        logits = self.theta[:, None].masked_fill(self.member == 0, float("-inf"))
        return logits.softmax(0)

    def local(self):
        return self.shares() @ self.mass

    def optimizer(self, lr):
        return torch.optim.Adam([self.theta], lr)

    @torch.no_grad()
    def slope(self, loss, uniform):
        "Store the gradient of loss / uniform + penalty (mean of w² - 1) in theta, in a third of autograd's time."
        share = self.shares()
        w = share @ self.mass
        everything = torch.cat([w, self.memory_weights])
        _, slope = loss.slope(everything)
        g = slope[: self.n] / uniform
        g += 2 * self.penalty / self.n * w
        of_class = share.T @ g
        self.theta.grad = w * (g - self.member @ of_class)


LEARNERS = {"fixed": FixedLearner, "released": ReleasedLearner, "paper": PaperLearner}
