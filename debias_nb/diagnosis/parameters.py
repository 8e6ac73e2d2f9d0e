"""Parameters of `diagnose`, `compare` and `label`: each is described once, in the function's signature and docstring.

Commands, their help and the checks of numbers are made from there. The source is read, since importing it takes PyTorch."""
import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ..checks import BRACKETS, ConfigError, check_range, check_whole

ENTRY = re.compile(r"^(\w[\w, ]*) : (.*)\n((?:    .*\n)+)", re.MULTILINE) # names, kind, description
RANGE = re.compile(r"in ([\[(])([\w.-]+), ([\w.-]+)([\])])")
CLOSED = {brackets: closed for closed, brackets in BRACKETS.items()}
PLAIN = ("int", "float", "str")


@dataclass(frozen=True)
class Parameter:
    "Parameter of a function, as signature and docstring describe it."
    annotation: str
    default: object # `...` where it must be given
    kind: str       # such as `int in [10, inf)`
    help: str       # the description, without what is so in Python alone

    @property
    def bounds(self) -> re.Match | None:
        "Ends of the range of a number."
        return RANGE.search(self.kind)

    def check(self, name: str, value) -> None:
        "Check that a number lies in the range of its kind. Raise `ConfigError`."
        if self.bounds is None or value is None and self.default is None:
            return
        begin, low, high, end = self.bounds.groups()
        if self.annotation.startswith("int"):
            check_whole(name, value, int(low), None if high == "inf" else int(high))
        else:
            check_range(name, value, float(low), float(high), CLOSED[begin + end])


def _descriptions(docstring: str) -> dict[str, tuple[str, str]]: # kind and help
    "Read the entries of a docstring for parameters, by name."
    descriptions = {}
    for names, kind, text in ENTRY.findall(docstring):
        help, *_ = " ".join(text.split()).split(" In Python, ")
        descriptions |= dict.fromkeys(names.split(", "), (kind.removesuffix(", optional"), help))
    return descriptions


@lru_cache
def parameters(function: str) -> dict[str, Parameter]:
    "Return the parameters of a function of the module of that name; what is `As in` another function has its description there."
    source = Path(__file__).with_name(f"{function}.py").read_text("utf-8")
    definition = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == function)
    descriptions = _descriptions(ast.get_docstring(definition))
    names = [*definition.args.args, *definition.args.kwonlyargs]
    defaults = [*definition.args.defaults, *definition.args.kw_defaults]
    required = [ast.Constant(...)] * (len(names) - len(defaults))
    result = {}
    for node, default in zip(names, required + defaults):
        kind, help = descriptions[node.arg]
        if help.startswith("As in `"):
            other = parameters(help.split("`")[1])[node.arg]
            kind, help = other.kind, other.help
        result[node.arg] = Parameter(ast.unparse(node.annotation), ast.literal_eval(default), kind, help)
    return result


def check_used(function: str, arguments: dict, door: str, used: set[str]) -> None:
    "Refuse arguments that do nothing together with `door`. Raise `ConfigError` naming them and what is taken."
    table = parameters(function)
    empty = {name: arguments[name] is None or isinstance(arguments[name], (dict, tuple, list)) and not arguments[name] for name in table}
    plain = {name: isinstance(arguments[name], (str, bool, int, float)) and arguments[name] == one.default for name, one in table.items()}
    unused = [name for name in table if name not in used and not empty[name] and not plain[name]]
    if unused:
        taken = ", ".join(name for name in table if name in used)
        raise ConfigError(f"{', '.join(unused)}: with {door} {'these do' if len(unused) > 1 else 'this does'} nothing; what is taken there is {taken}")


def plain_arguments(function: str, arguments: dict) -> dict:
    "Return the numbers and texts among a function's arguments, once each number lies in its range. Raise `ConfigError`."
    plain = {}
    for name, parameter in parameters(function).items():
        if parameter.annotation.removesuffix(" | None") in PLAIN:
            plain[name] = arguments[name]
            parameter.check(name, arguments[name])
    return plain
