"sentence-transformers' trainer, quiet, with the settings that this project never varies. It takes seconds to import."
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from transformers import PrinterCallback

QUIET = { # no reports, no checkpoints, no clipping of gradients, a constant rate after warm-up
    "report_to": "none", "save_strategy": "no", "eval_strategy": "no", "logging_strategy": "no", "disable_tqdm": True,
    "max_grad_norm": 0., "lr_scheduler_type": "constant_with_warmup", "optim": "adamw_torch_fused", "weight_decay": 0.,
    "dataloader_pin_memory": False,
}


def training_arguments(
    folder: str | Path, # where the trainer may write
    **changes,          # any of SentenceTransformerTrainingArguments
) -> SentenceTransformerTrainingArguments:
    "sentence-transformers' training arguments; a change goes before what is set here."
    settings = {"use_cpu": not torch.cuda.is_available(), **QUIET, **changes}
    return SentenceTransformerTrainingArguments(output_dir=str(folder), **settings)


class QuietTrainer(SentenceTransformerTrainer):
    "sentence-transformers' trainer without a model card and printed logs; the history is in `state.log_history`."
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.remove_callback(PrinterCallback)

    def add_model_card_callback(self, default_args_dict):
        pass
