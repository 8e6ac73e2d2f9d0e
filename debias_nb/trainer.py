"sentence-transformers' trainer, quiet, with the settings that this project never varies. It takes seconds to import."
from itertools import chain
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
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
    "Return sentence-transformers' training arguments; a change goes before what is set here."
    settings = {"use_cpu": not torch.cuda.is_available(), **QUIET, **changes}
    arguments = SentenceTransformerTrainingArguments(output_dir=str(folder), **settings)
    arguments._n_gpu = min(arguments.n_gpu, 1) # over several, transformers would enlarge each batch
    return arguments


class TokenizedOnce:
    "A static model's `preprocess` that remembers each text's tokens: making them in every epoch is half the training."

    def __init__(self, preprocess):
        self.preprocess = preprocess
        self.ids = {} # text -> (n,) of its tokens

    def __call__(self, texts: list[str], prompt: str | None = None, **options) -> dict[str, torch.Tensor]:
        "Return what `preprocess` does; behind a prompt it is asked each time."
        if prompt:
            return self.preprocess(texts, prompt=prompt, **options)
        new = [text for text in dict.fromkeys(texts) if text not in self.ids]
        if new:
            features = self.preprocess(new, **options)
            ids = features["input_ids"].tensor_split(features["offsets"][1:])
            self.ids.update(zip(new, ids))
        ids = [self.ids[text] for text in texts]
        lengths = torch.tensor([0, *map(len, ids[:-1])])
        return {"input_ids": torch.cat(ids), "offsets": lengths.cumsum(0)}


class QuietTrainer(SentenceTransformerTrainer):
    "sentence-transformers' trainer without a model card and printed logs; the history is in `state.log_history`."
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.remove_callback(PrinterCallback)
        preprocess = getattr(self.data_collator, "preprocess_fn", None) # None: its texts are tokens already
        if preprocess and isinstance(self.model[0], StaticEmbedding):
            self.data_collator.preprocess_fn = TokenizedOnce(preprocess)

    def add_model_card_callback(self, default_args_dict):
        pass


class ApartMatches(DefaultBatchSampler):
    """Batches of matches for a ranking loss, which takes the other items of a batch for negatives.

    None of them is the text itself or another of its matches. Matches that share a text are spread over the batches
    first. One that fits nowhere, since a text has more matches than there are batches, waits for another epoch.
    """
    def __init__(self, dataset, **settings): # dataset: matches, their left and right texts in its first two columns
        super().__init__(dataset, **settings)
        self.left, self.right = (list(dataset[name]) for name in dataset.column_names[:2])
        self.near = {} # text -> itself, and all texts it matches
        for left, right in zip(self.left, self.right):
            for text in (left, right):
                self.near.setdefault(text, {text}).update((left, right))

    def shares(self, row: int) -> bool:
        "Return whether one of the texts of a match has another match too."
        left, right = self.left[row], self.right[row]
        return len(self.near[left] | self.near[right]) > len({left, right})

    def _place(self, row: int, batches: list, places) -> None: # batches: rows, left texts and right texts of each
        "Add a row to the first batch that has room for it, and no match of its texts."
        left, right = self.left[row], self.right[row]
        for place in places:
            rows, lefts, rights = batches[place]
            has_room = len(rows) < self.batch_size
            if has_room and self.near[left].isdisjoint(rights) and self.near[right].isdisjoint(lefts):
                rows.append(row)
                lefts.add(left)
                rights.add(right)
                return

    def __iter__(self):
        if self.generator is not None and self.seed is not None:
            self.generator.manual_seed(self.seed + self.epoch)
        order = torch.randperm(len(self.left), generator=self.generator).tolist()
        batches = [([], set(), set()) for _ in range(len(self))]
        n = len(batches)
        free_rows = []
        for row in order:
            if self.shares(row):
                start = int(torch.randint(n, (1,), generator=self.generator))
                self._place(row, batches, chain(range(start, n), range(start)))
            else:
                free_rows.append(row)
        for rows, *_ in batches: # the others meet no match of theirs anywhere
            room = self.batch_size - len(rows)
            rows += free_rows[:room]
            del free_rows[:room]
        yield from (rows for rows, *_ in batches if rows)
