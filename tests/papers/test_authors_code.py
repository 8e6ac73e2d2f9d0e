"""The authors' code and ours on the same inputs, tried on a made stand-in of the same form."""
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("authors_code", ROOT / "tools" / "authors_code.py")
tool = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = tool
spec.loader.exec_module(tool)

WEIGHTING = '''
import a_package_that_is_nowhere

def lr_setter(optimizer, step, args):
    for group in optimizer.param_groups:
        group["lr"] = args.lrbl if step < args.epochb / 2 else args.lrbl / 10

def random_fourier_features_gpu(x, num_f, sum):
    frequency = torch.randn(size=(num_f, 1))[:, 0]
    phase = 2 * np.pi * torch.rand(size=(x.shape[1], num_f))
    angle = x[:, :, None].cuda() * frequency.cuda() + phase
    angle = angle - angle.amin(1, keepdim=True)
    angle = angle / angle.amax(1, keepdim=True) * np.pi / 2
    return (2 / num_f) ** .5 * (angle.cos() + angle.sin())

def cov(x, w):
    mean = (w * x).sum(0)
    return (w * x).T @ x - mean[:, None] * mean

def lossb_expect(x, w, num_f, sum):
    values = random_fourier_features_gpu(x, num_f=num_f, sum=sum)
    squares = [cov(values[:, :, k], w).square() for k in range(num_f)]
    return torch.stack([square.sum() - square.trace() for square in squares]).sum()

def weight_learner(batch, old, old_logits, args, global_epoch=0, iter=0):
    logits = Variable(torch.ones(len(batch), 1).cuda())
    logits.requires_grad = True
    rows = torch.cat([batch.detach(), old])
    descent = torch.optim.SGD([logits], lr=args.lrbl, momentum=MOMENTUM)
    for step in range(args.epochb):
        lr_setter(descent, step, args)
        descent.zero_grad()
        loss = lossb_expect(rows, torch.cat([logits, old_logits]).softmax(0), args.num_f, args.sum)
        (loss / args.lambdap + logits.softmax(0).pow(args.decay_pow).sum()).backward()
        descent.step()
    n, keep = len(batch), args.presave_ratio
    old[:n] = keep * old[:n] + (1 - keep) * batch
    old_logits[:n] = keep * old_logits[:n] + (1 - keep) * logits
    return logits.softmax(0), old, old_logits
'''

TOPICS = '''
class TFIDFEncoder(torch.nn.Module):
    def __init__(self, dataset):
        super().__init__()
        self.model = TfidfVectorizer().fit(dataset.texts)

    def compute_score(self, texts):
        rows = self.model.transform(texts)
        return torch.tensor((rows @ rows.T).toarray())
'''

ENSEMBLE = '''
from pytorch_lightning import LightningModule

class DistanceRegularizedEncoderCL(LightningModule):
    def __init__(self, args, dataset):
        self.teacher = load(args.checkpoint)

    def numerical_stability(self, scores):
        return scores - scores.amax(1, keepdim=True).detach()

    def cosines(self, vectors):
        raise NotImplementedError # no method that the comparison takes

    def compute_teacher_score(self, x):
        unit = F.normalize(self.teacher.encode(x))
        return self.numerical_stability(unit @ unit.T / self.temperature)

    def compute_score(self, x):
        unit = F.normalize(self(x))
        return self.numerical_stability(unit @ unit.T / self.temperature)

    def distances_to_prob(self, scores, others):
        odds = scores.exp()
        return odds / (odds * others).sum(1, keepdim=True)

    def step(self, batch, index):
        x, y, _ = batch
        others = 1 - torch.eye(len(y))
        pairs = (y[:, None] == y).float() * others
        p = self.distances_to_prob(self.compute_teacher_score(x), others)
        h = self.distances_to_prob(
            self.numerical_stability(self.bias_model.compute_score(x) / self.temperature), others)
        bias = (h * pairs).sum() / (pairs.sum() + self.eps)
        flat = (p / p.sum(1, keepdim=True)) ** (1 - bias)
        log_q = self.distances_to_prob(self.compute_score(x), others).log()
        return -(others * flat * log_q).sum(1).mean()
'''

LOSSES = '''
class SupConLoss(nn.Module):
    def __init__(self, temperature=.07, base_temperature=.07):
        super().__init__()
        self.temperature, self.scale = temperature, temperature / base_temperature

    def forward(self, features, labels):
        z = features[:, 0]
        others = 1 - torch.eye(len(z))
        pairs = (labels[:, None] == labels).float() * others
        scores = z @ z.T / self.temperature
        log_p = scores - (scores.exp() * others).sum(1, keepdim=True).log()
        return -self.scale * ((pairs * log_p).sum(1) / (pairs.sum(1) + 1e-7)).mean()
'''


def as_diff(path: str, text: str) -> str:
    "A diff that adds a file behind one that changes another."
    lines = text.splitlines()
    lines_added = "".join(f"+{line}\n" for line in lines)
    change = "diff --git a/run.py b/run.py\n--- a/run.py\n+++ b/run.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"
    last = "diff --git a/last.py b/last.py\n--- a/last.py\n+++ b/last.py\n@@ -1 +1 @@\n-b = 1\n+b = 2\n"
    return (f"{change}diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 "
            f"+1,{len(lines)} @@\n{lines_added}{last}")


def scan_clone(folder: Path, momentum: float = .9) -> Path:
    folder.mkdir()
    text = as_diff("src/sample_weighting.py", WEIGHTING.replace("MOMENTUM", str(momentum)))
    (folder / "scan.diff").write_text(text, "utf-8")
    return folder


def arr_clone(folder: Path) -> Path:
    (folder / "authorship").mkdir(parents=True)
    for name, text in {"traditional_modules": TOPICS, "ensemble_modules": ENSEMBLE, "losses": LOSSES}.items():
        (folder / "authorship" / f"{name}.py").write_text(text, "utf-8")
    return folder


def test_code_that_computes_the_same_comes_out_the_same(tmp_path, capsys):
    record = tmp_path / "record.json"
    scan, arr = scan_clone(tmp_path / "scan"), arr_clone(tmp_path / "arr")
    subprocess.run(["git", "init", "-q", arr], check=True)
    commit = ["git", "-C", arr, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one", "--allow-empty"]
    subprocess.run(commit, check=True)
    tool.main(["--scan", str(scan), "--arr", str(arr), "--record", str(record)])
    numbers = json.loads(record.read_text("utf-8"))
    for row in numbers["weights"]:
        assert row["weights"] < 1e-7 and row["memory_features"] < 1e-6 and row["memory_weights"] < 1e-6
        assert 1e-9 < row["spread"] < 1e-3
    for row in numbers["arr"]:
        assert row["theirs"] == pytest.approx(row["ours"], rel=1e-5)
        assert row["gradient"] < 1e-4 * row["largest_gradient"]
        assert row["printed"] > 10 * row["theirs"]
    assert [row["factor"] for row in numbers["contrastive"]] == pytest.approx([10 / 12, 10 / 12 / .7])
    assert all(abs(row["difference"]) < 1e-5 for row in numbers["contrastive"])
    assert len(numbers["sources"]["arr"]["commit"]) == 40 and set(numbers["sources"]["scan"]["files"]) == {"scan.diff"}
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 2 + 3 + 3 + 2 and all(line.count("|") == 4 for line in table)


def test_code_that_computes_something_else_is_seen(tmp_path):
    equal, unequal = (tool.compare(scan_clone(tmp_path / str(momentum), momentum), None) for momentum in (.9, .5))
    assert not unequal.arr and max(row["weights"] for row in equal.weights) < 1e-7
    assert all(row["memory_weights"] > 1e-6 for row in unequal.weights[:2])
    assert unequal.weights[0]["weights"] > 100 * equal.weights[0]["weights"]


@pytest.mark.parametrize("file, text, message", [
    ("losses.py", None, "losses.py: there is no such file; fetch https://github.com/jitkapat/TopicReg"),
    ("losses.py", "class Other:\n    pass\n", "nothing is called SupConLoss in the authors' file"),
])
def test_a_clone_without_what_is_compared_is_named(tmp_path, file, text, message):
    folder = arr_clone(tmp_path / "arr")
    path = folder / "authorship" / file
    path.write_text(text, "utf-8") if text else path.unlink()
    with pytest.raises(SystemExit, match=re.escape(message)):
        tool.main(["--arr", str(folder)])


def test_the_diff_must_add_the_file(tmp_path):
    (tmp_path / "scan.diff").write_text(as_diff("src/other.py", "a = 1"), "utf-8")
    with pytest.raises(SystemExit, match="the diff does not add src/sample_weighting.py"):
        tool.main(["--scan", str(tmp_path)])


def test_without_a_clone_the_command_says_what_it_needs(capsys):
    with pytest.raises(SystemExit):
        tool.main([])
    assert "--scan or --arr" in capsys.readouterr().err


def test_the_committed_numbers_say_what_was_run():
    numbers = json.loads((ROOT / "experiments/authors_code.json").read_text("utf-8"))
    assert [numbers["sources"][paper]["commit"][:7] for paper in ("scan", "arr")] == ["0abccf7", "b5638a1"]
    assert all(len(digest) == 64 for source in numbers["sources"].values() for digest in source["files"].values())
    assert max(row["weights"] for row in numbers["weights"]) < 1e-7
    assert all(row["theirs"] == pytest.approx(row["ours"], rel=1e-5) for row in numbers["arr"])
