"""One line of JSON: what a fine-tuning step of the reference costs (PyPI: cactus-needle[train]==2.0.15).

    python reference.py CHECKPOINT.safetensors TOKENIZER.model BATCH LENGTH RANK STEPS

The package's own entry point runs on made-up rows that fill LENGTH; its progress messages, one a step, are the clock.
The first step compiles and is left out.
"""
import argparse
import json
import os
import pickle
import struct
import sys
import tempfile
import time

os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np

checkpoint, tokenizer_path = sys.argv[1:3]
batch, length, rank, steps = map(int, sys.argv[3:7])


def as_pickle(source, target):
    """The package reads pickles only."""
    with open(source, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        body = file.read()
    tree = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        array = np.frombuffer(body[start:end], np.float32).reshape(entry["shape"])
        *folders, leaf = name.split("/")
        node = tree
        for folder in folders:
            node = node.setdefault(folder, {})
        node[leaf] = array
    config = json.loads(header["__metadata__"]["config"])
    with open(target, "wb") as file:
        pickle.dump({"format_version": 2, "params": tree, "config": config}, file)


def rows(tokenizer, render, count):
    """Rows that end within the last 16 of LENGTH."""
    for number in range(count):
        example = {"query": "", "tools": [{"name": f"tool_{number}", "parameters": {"value": {"type": "string"}}}],
                   "answers": [{"name": f"tool_{number}", "arguments": {"value": "seven words that are to be learnt"}}]}
        word = number
        while True:
            prompt, target = render(example)
            if len(tokenizer.encode(prompt)) + len(tokenizer.encode(target)) + 2 > length - 16:
                break
            example["query"] += f" {word % 10}"
            word += 7
        yield example


def main():
    from needle.model import finetune, tokenizer
    tokens = tokenizer.SANTokenizer(tokenizer_path)
    finetune.get_tokenizer = lambda *_: tokens
    clock = []

    def progress(message):
        if message.split()[:1] in (["schedule"], ["step"]):
            clock.append((time.perf_counter(), time.process_time()))

    with tempfile.TemporaryDirectory() as folder:
        base = os.path.join(folder, "base.pkl")
        as_pickle(checkpoint, base)
        data = os.path.join(folder, "rows.jsonl")
        with open(data, "w") as file:
            for row in rows(tokens, finetune.render_example, batch * (steps + 1)):
                file.write(json.dumps(row) + "\n")
        finetune.finetune_local(argparse.Namespace(
            checkpoint=base, jsonl_path=data, generate=0, max_len=length, lora_rank=rank, lora_alpha=2.0 * rank,
            batch_size=batch, epochs=1, lr=1e-4, val_split=0.0, seed=0, qat_bits="none", checkpoint_dir=folder,
            score=False, out=os.path.join(folder, "adapter.pkl")), progress)
    spans = np.diff(np.array(clock), axis=0)[1:]
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    wall, processor = np.median(spans, axis=0)
    print(json.dumps({"wall_s": wall, "processor_s": processor, "peak_mb": peak / 1024}))


main()
