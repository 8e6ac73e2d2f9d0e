"""Texts encoded by several models in several processes, or on several GPUs, through sentence-transformers' own pool.

A process takes a block of texts and does with it what this one would do, so that vectors come out the same. The module
takes seconds to import, as sentence-transformers does.
"""
import os
import signal
import sys
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import current_process

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

from ..checks import EncoderError
from ..encoders.kinds import device_of
from ..encoders.tokens import embed, tokenize
from ..processes import end_with


def encode_block(
    models: list, # which cut texts alike
    texts: list[str],
    prompt: str,  # before each text
) -> list[torch.Tensor]: # (n, d) of each model, unit vectors if it compares by cosine
    "Encode texts with each model; they are cut into tokens once."
    tokens = tokenize(models[0], texts, prompt=prompt)
    return [embed(model, tokens, unit=model.similarity_fn_name == "cosine") for model in models]


ENDED = "devices: a process that encodes has ended, as where memory runs out; name fewer devices"
UNGUARDED = 'devices: in a script this belongs below `if __name__ == "__main__":`, since each process imports the script'


class Ensemble(SentenceTransformer):
    "Models as parts of one, as sentence-transformers' pool takes it; its processes encode with some of them."
    parent: int   # number of the process that the others end with
    workers: dict # as `start_multi_process_pool` returns them

    def get_model_kwargs(self) -> list[str]: # what `encode` hands on to the processes
        return ["parts"]

    @staticmethod
    def _multi_process_worker(target_device, model, input_queue, results_queue):
        end_with(model.parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN) # a Ctrl-C reaches all processes; the parent ends the others
        torch.set_num_threads(1)
        while True:
            number, texts, options = input_queue.get()
            try:
                models = [model[part].to(target_device) for part in options["parts"]]
                vectors = encode_block(models, texts, options["prompt"])
                answer = [one.numpy() for one in vectors] # tensors take shared memory, of which containers have little
            except Exception as e: # any, as else nobody hears of it
                answer = EncoderError(f"devices: {target_device}: {type(e).__name__}: {e}")
            results_queue.put([number, [answer]])

    def vectors(self, models: list, texts: list[str], prompt: str, block: int, progress: bool) -> list[torch.Tensor]: # block: texts at a time
        "Return what `encode_block` does. Raise `EncoderError` for what a process cannot do, and where one has ended."
        own = [*self]
        try:
            answers = self.encode(
                texts, prompt=prompt, parts=[own.index(model) for model in models], pool=self.workers, chunk_size=block,
                convert_to_numpy=False, show_progress_bar=progress)
        except RuntimeError: # of sentence-transformers, where a process is gone
            raise EncoderError(ENDED) from None
        for answer in answers:
            if isinstance(answer, EncoderError):
                raise answer
        return [torch.from_numpy(np.concatenate(blocks)) for blocks in zip(*answers)]


@contextmanager
def encoding_on(
    scorers: dict,             # name -> `Scorer`, whose model stays where it is
    devices: list[str] | None, # of each process; none: this process encodes
):
    "Start a process on each device, let models encode there inside the block, and end the processes behind it."
    if not devices:
        yield scorers
        return
    if getattr(current_process(), "_inheriting", False): # it imports a script, and the parent would wait for ever
        print(UNGUARDED, file=sys.stderr, flush=True)
        os.kill(os.getppid(), signal.SIGTERM)
        os._exit(1)
    homes = {scorer.model: device_of(scorer.model) for scorer in scorers.values()}
    ensemble = Ensemble(modules=[*homes], device="cpu")
    ensemble.parent = os.getpid()
    workers = ensemble.start_multi_process_pool(devices)
    try:
        for model, home in homes.items():
            model.to(home)
        ensemble.workers = workers
        yield {name: replace(scorer, pool=ensemble) for name, scorer in scorers.items()}
    finally:
        ensemble.stop_multi_process_pool(workers)
