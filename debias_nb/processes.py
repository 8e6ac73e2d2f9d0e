"""Two processes with half the batch each take the step of one with the whole batch, or the loss says why they cannot.

Each process embeds its part of a batch, and the trainer averages the gradients before a step. Where a loss is a mean
over rows, and all parts are equally large, nothing else is needed. Three kinds of losses need more:

- a loss over pairs of rows needs the rows of all processes: it computes the whole loss in each. A row counts in the
  loss of every process, and the average brings the gradient back to that of one process with the whole batch
  (`gather_rows`);
- a mean over some of the rows, of which the processes have different numbers (`mean_of_rows`);
- a loss with weights of its own, which nobody averages: they begin alike, and what is random is drawn once.
"""
import os
import threading
import time
from functools import cache
from multiprocessing import current_process

import torch
import torch.distributed as dist


def is_distributed() -> bool:
    "Return whether this process has joined others that it trains with."
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def processes() -> int:
    "Count the processes that train together, whether they have met already or are about to."
    if dist.is_available() and dist.is_initialized():
        return dist.get_world_size()
    return int(os.environ.get("WORLD_SIZE", 1))


def rank() -> int:
    "Return the rank of this process among those that train together."
    if is_distributed():
        return dist.get_rank()
    return 0


def unwrap(model):
    "Return the model inside DistributedDataParallel or torch.compile; what is no model, as it is."
    while {"_orig_mod", "module"} & getattr(model, "_modules", {}).keys():
        model = model._modules.get("_orig_mod") or model._modules["module"]
    return model


def gather_rows(
    rows: torch.Tensor, # (n, …) of this process
) -> torch.Tensor: # (processes · n, …), with gradient
    "Return the rows of all processes. Raise `ValueError` if their batches differ in size."
    if not is_distributed():
        return rows
    from sentence_transformers.util.distributed import all_gather
    size = torch.tensor([len(rows)], device=rows.device)
    sizes = all_gather(size).tolist()
    if len(set(sizes)) > 1: # which the function below does not look at
        counts = ", ".join(map(str, sizes))
        raise ValueError(f"processes with batches of {counts} rows: this loss needs equal ones "
                         "(dataloader_drop_last=True)")
    return all_gather(rows.contiguous(), with_grad=rows.requires_grad)


def mean_over_processes(value: torch.Tensor) -> torch.Tensor: # scalar without gradient
    "Average a number over the processes, in training; an evaluation may be one process's alone."
    if not is_distributed() or not torch.is_grad_enabled():
        return value
    value = value.detach().clone()
    dist.all_reduce(value)
    return value / processes()


def mean_of_rows(
    values: torch.Tensor, # (n,) of this process
    weight: torch.Tensor, # (n,) 1 for the rows that count, else 0
) -> torch.Tensor: # scalar; in several processes what averages to the mean over the rows of all of them
    "Average the rows that count; 0 if there are none."
    count = mean_over_processes(weight.sum()).clamp(min=1 / processes())
    return (values * weight).sum() / count


def broadcast_weights(module: torch.nn.Module) -> None:
    "Copy the weights of the first process."
    if is_distributed():
        for value in module.state_dict().values():
            dist.broadcast(value, 0)


def broadcast_number(
    number: int,
    device: torch.device, # of the model: where there are several kinds of device, processes meet on that one
) -> int:
    "Return the number of the first process."
    if not is_distributed():
        return number
    message = torch.tensor([number], device=device)
    dist.broadcast(message, 0)
    return int(message)


def refuse_several(
    subject: str,         # that cannot be done in several processes
    reason: str,          # and what to do instead
    error=ValueError,  # the class that is raised
) -> None:
    "Raise an error if several processes train together."
    if processes() > 1:
        raise error(f"{subject} cannot be trained in {processes()} processes: {reason}")


@cache # one thread is enough
def end_with(parent: int) -> None: # parent: number of a process
    "Let this process end within a second after the one that started it, however that ends."
    def watch():
        while os.getppid() == parent:
            time.sleep(.2)
        os._exit(1)

    if os.getpid() != parent:
        threading.Thread(target=watch, daemon=True).start()


def take_gpu() -> None:
    "Leave a new process one GPU of several, before it uses any: the first process the first one, the next the second."
    count = torch.cuda.device_count()
    if count > 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(count)))
        [number] = current_process()._identity # from 1 on
        os.environ["CUDA_VISIBLE_DEVICES"] = visible.split(",")[(number - 1) % count]
