"""One way to find every base encoder, and to load it."""
import json
import os
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from socket import getaddrinfo
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies

import torch

from ..checks import EncoderError, nearest
from ..settings import EncoderConfig
from ..files import Count, Strict, load_config, package_file, with_own
from .safe_folders import HUB_FILES, WEIGHTS_FILE, check_folder, is_folder, load_safely
from .kinds import is_static

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class EncoderCard(Strict):
    "Description of a base encoder."
    kind: str                      # static or transformer
    hub: str | None = None         # repository on the hub
    revision: str | None = None    # commit there
    package: str | None = None     # Python package that carries the files
    sha256: str | None = None      # of model.safetensors
    files: dict[str, str] = {}     # sha256 of every other file that decides what the encoder gives
    licence: str
    trained_on: str
    zero_shot: bool                # whether our test sets are new to it
    note: str | None = None
    parameters: Count | None = None

    @property
    def checksums(self) -> dict[str, str]: # file -> sha256; none where any will do
        weights = {WEIGHTS_FILE: self.sha256} if self.sha256 else {}
        return weights | self.files


NO_CARD = EncoderCard(kind="", licence="", trained_on="", zero_shot=False) # of an encoder that nobody has described


def encoder_cards() -> dict[str, EncoderCard]:
    """Read the cards of the package, and your own: `encoders.yaml` in the folder DEBIAS_NB_MODELS.

    Raise `ConfigError` for an unknown key, and for a card of your own with a name of the package's.
    """
    cards = load_config(package_file("encoders.yaml"), dict[str, EncoderCard], "debias_nb/encoders.yaml")
    return with_own(cards, "DEBIAS_NB_MODELS", "encoders.yaml", lambda path: load_config(path, dict[str, EncoderCard]))


def package_folder(package: str) -> Path | None:
    "Return the folder of model files inside an installed package, without importing it."
    from importlib import metadata
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        return None
    return next((Path(file.locate()).parent for file in files if file.name == "modules.json"), None)


def _local_folder(card: EncoderCard, short: str, places: list[str]) -> Path | None:
    "Find an encoder in its package or in `DEBIAS_NB_MODELS`, and add to the places that were searched."
    folder = None
    if card.package:
        folder = package_folder(card.package)
        places.append(f"the Python package {card.package} (not installed: pip install 'debias-nb[{short}]')")
    root = os.environ.get("DEBIAS_NB_MODELS")
    if not folder and root:
        folder = Path(root).expanduser() / short
        places.append(f"the folder {folder}")
    elif not folder:
        places.append("DEBIAS_NB_MODELS (not set)")
    return folder if folder and is_folder(folder) else None


def _hub_folder(hub: str | None, revision: str | None, download: bool, places: list[str]) -> Path | None:
    "Download configuration, vocabulary and safetensors from the hub, or add to the places why there are none."
    if not hub:
        places.append("the hub (no id is known for this name)")
    elif not revision:
        remedy = f"name a commit: {hub}@COMMIT in a command, `revision` in a configuration"
        places.append(f"the hub's {hub} (not asked: no revision is pinned; {remedy})")
    elif not download:
        places.append(f"the hub's {hub} (not asked)")
    else:
        from huggingface_hub import constants, snapshot_download
        is_offline = constants.HF_HUB_OFFLINE or leads_nowhere(constants.ENDPOINT)
        try:
            return Path(snapshot_download(
                hub, revision=revision, allow_patterns=list(HUB_FILES), ignore_patterns=["*.bin.index.json"],
                etag_timeout=5, local_files_only=is_offline))
        except Exception as e: # the hub client raises a dozen unrelated classes when there is no network
            # of the client, which did not ask
            is_refusal = type(e).__name__ in ("LocalEntryNotFoundError", "OfflineModeIsEnabled")
            reason = ("no connection" if is_offline and is_refusal
                      else f"{type(e).__name__}: {str(e).partition(chr(10))[0]}")
            places.append(f"the hub's {hub} at {revision} ({reason})")
    return None


def find_folder(
    config: EncoderConfig,
    download: bool = True, # ask the hub when nothing is found here
    plain: bool = False,   # as of `check_folder`
) -> Path: # checked
    """Find the folder of an encoder's files: in a package, in `DEBIAS_NB_MODELS`, then on the hub.

    Raise `EncoderError` saying where it was looked for, or what is not safe to load.
    """
    cards = encoder_cards()
    card = cards.get(config.name, NO_CARD)
    short = config.name.split("/")[-1]
    places = []
    folder = _local_folder(card, short, places)
    if folder:
        return check_folder(folder, card.checksums, plain)
    hub = config.name if "/" in config.name else card.hub
    revision = config.revision or card.revision
    folder = _hub_folder(hub, revision, download, places)
    if folder:
        return check_folder(folder, plain=plain)
    advice = (f"Name a folder that `model.save` wrote, or put a sentence-transformers folder named {short!r} into the "
              "folder that DEBIAS_NB_MODELS names")
    if hub: # the encoder's fingerprint is in each record, whatever was put there
        files = " ".join(f"--include {pattern!r}" for pattern in HUB_FILES)
        target = f"--local-dir \"$DEBIAS_NB_MODELS/{short}\""
        advice += f": hf download {hub} --revision {revision or 'COMMIT'} {files} {target}"
    elif config.name not in cards:
        advice += nearest(config.name, [*cards, "tiny", "tiny-static"])
    raise EncoderError(f"encoder {config.name!r} was not found. Looked in: {'; '.join(places)}. {advice}")


def find_model(source: str) -> Path: # a folder, a name of `encoders.yaml`, or a hub id (`name@commit`)
    """Find the folder of a model that a command names, also of a transformer alone or in the hub client's cache.

    Raise `EncoderError` saying where it was looked for.
    """
    if is_folder(source):
        return check_folder(Path(source), plain=True)
    if source.startswith((".", "/", "~")):
        raise EncoderError(f"{source}: no such folder")
    name, _, revision = source.partition("@")
    names_by_hub = {card.hub: short for short, card in encoder_cards().items()}
    try:
        config = EncoderConfig(name=names_by_hub.get(name, name), kind="transformer", revision=revision or None)
    except ValueError: # a name of `settings` alone, such as tiny-static
        problem = f"encoder {name!r} is made here and lies in no folder"
        raise EncoderError(f"{problem}: load_encoder({name!r}).save(FOLDER), then name the folder") from None
    try:
        return find_folder(config, plain=True)
    except EncoderError:
        if "/" not in name or revision:
            raise
        from huggingface_hub import snapshot_download
        with suppress(Exception): # the client raises a dozen unrelated classes for what is not there
            return check_folder(Path(snapshot_download(name, local_files_only=True)), plain=True)
        raise


def leads_nowhere(address: str) -> bool:
    "Return whether an address has no host and no proxy. The hub's client would try again for half a minute."
    try:
        return not getaddrinfo(urlsplit(address).hostname, None)
    except OSError:
        return not getproxies()


def best_device() -> str: # where runs train and evaluate
    return "cuda" if torch.cuda.is_available() else "cpu"


BY_SCORES = "in Python `diagnose` takes functions of two lists of texts in place of models"


def refuse_cross(folder: Path) -> None:
    "Raise `EncoderError` for a cross-encoder, by its family or by the class of its transformer."
    settings = {}
    for name in ("config.json", "config_sentence_transformers.json"): # the second has the family, under the same name
        if (folder / name).is_file():
            settings |= json.loads((folder / name).read_text("utf-8"))
    architectures = settings.get("architectures") or []
    if (settings.get("model_type") == "CrossEncoder"
            or any(name.endswith("ForSequenceClassification") for name in architectures)):
        raise EncoderError(f"{folder}: a cross-encoder, which reads two texts at once and has no vector of one; "
                           f"{BY_SCORES}")


def _planting() -> ModuleType:
    "Import what makes planted encoders, with their synthetic catalog: to load another one, neither is needed."
    return import_module(".planted", __package__)


def load_encoder(config: EncoderConfig | str | Path, device: str = "cpu") -> "SentenceTransformer":
    """Load a base encoder, or train it now if it is a planted one.

    No code from a model's folder is run, and weights are read from safetensors alone.

    Parameters
    ----------
    config : EncoderConfig, str or Path
        A configuration, a folder, or a name: `tiny` and `tiny-static` (planted, trained in seconds and kept), `minilm`,
        that of a folder in DEBIAS_NB_MODELS, or an id on the model hub with its commit (`name@commit`).
    device : str
        Where it computes.

    Returns
    -------
    SentenceTransformer
        In evaluation mode.

    Raises
    ------
    EncoderError
        If it is not found, not safe to load, not of the kind that the configuration says, a
        cross-encoder, or has fewer layers than that.

    Examples
    --------
    >>> from debias_nb import load_encoder
    >>> load_encoder("tiny-static").encode(["kuzmal fezbum"]).shape
    (1, 128)
    """
    if config in ("tiny", "tiny-static"):
        config = _planting().planted_default(config)
    is_configured = isinstance(config, EncoderConfig)
    if is_configured and config.pretrain:
        model = _planting().planted_encoder(config)
    else:
        folder = find_folder(config) if is_configured else find_model(str(config))
        refuse_cross(folder)
        model = load_safely(folder)
    if is_configured and is_static(model) != (config.kind == "static"):
        actual = "static" if is_static(model) else "a transformer"
        raise EncoderError(f"encoder {config.name!r} is {actual}, but its configuration says {config.kind}")
    return model.to(device)
