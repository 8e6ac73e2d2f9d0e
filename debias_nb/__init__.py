"""Reduce spurious correlations in text-matching encoders: regularizers, sample weights, metrics, diagnoses.

The public names stand in `__init__.pyi`, which editors read; each is imported at its first use.
"""
import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
