"Modules that are loaded at their first use: a command refuses a wrong name before it waits for them."
from importlib import import_module


class Deferred:
    "Module that is imported when one of its names is asked for."
    def __init__(self, module: str):
        self.module = module

    def __getattr__(self, name: str):
        return getattr(import_module(self.module), name)
