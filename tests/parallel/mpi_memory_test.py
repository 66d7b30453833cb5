#!/usr/bin/env python3
"""A rank holds its share of the model, and a constant beside it.

usage: tests/parallel/mpi_memory_test.py TOOL SOURCE_FOLDER
"""
import json
import os
import struct
import sys
import tempfile
import unittest

from ranks import Server

TOOL, SOURCE = sys.argv[1:3]
LAYERS, HIDDEN, INTERMEDIATE, VOCABULARY = 6, 1024, 4096, 16384
MEBIBYTE = 1 << 20
CONSTANT = 48 * MEBIBYTE  # as docs/scale.md says: the program, MPI and its buffers, tables and activations
OPTIONS = ["--kv-memory", "0.02", "--context", "256", "--max-rows", "64", "--max-batch", "4"]


def tensors():
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN]
    yield "lm_head.weight", [VOCABULARY, HIDDEN]
    yield "model.norm.weight", [HIDDEN]
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        yield layer + "input_layernorm.weight", [HIDDEN]
        yield layer + "post_attention_layernorm.weight", [HIDDEN]
        for name in "qkvo":
            yield f"{layer}self_attn.{name}_proj.weight", [HIDDEN, HIDDEN]
        for name in ("gate", "up"):
            yield f"{layer}mlp.{name}_proj.weight", [INTERMEDIATE, HIDDEN]
        yield layer + "mlp.down_proj.weight", [HIDDEN, INTERMEDIATE]


def write_checkpoint(folder):
    """A model of zeros, and its size in bytes."""
    header, offset = {}, 0
    for name, shape in tensors():
        size = 2
        for extent in shape:
            size *= extent
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + offset)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
                   "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "num_hidden_layers": LAYERS,
                   "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": VOCABULARY,
                   "max_position_embeddings": 1024, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
                   "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
                   "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2}, file)
    return offset


def memory_of(process):
    """Bytes that are in memory now, without what other processes have as well."""
    with open(f"/proc/{process}/smaps_rollup", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Pss:"))


class Memory(unittest.TestCase):
    def test_a_rank_has_the_model_divided_by_their_number_and_a_constant(self):
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            model = write_checkpoint(folder)
            for ranks in (1, 2, 4):
                with Server(TOOL, ranks, "--model", folder, *OPTIONS) as server:
                    server.ask({"prompt": [1, 2, 3], "max_tokens": 2, "ignore_eos": True}).read()
                    found[ranks] = [memory_of(process) for _, process in sorted(server.ranks.items())]
        for ranks, memory in found.items():
            print(f"{ranks} ranks of a model of {model / MEBIBYTE:.0f} MiB:",
                  ", ".join(f"{one / MEBIBYTE:.0f}" for one in memory), "MiB")
            for one in memory:
                self.assertLess(one, model / ranks + CONSTANT)
                self.assertGreater(one, model / ranks)
        self.assertGreater(found[1][0], model / 2 + CONSTANT, "the control: a whole model is no half")
        self.assertGreater(min(found[2]), model / 4 + CONSTANT, "nor is a half a quarter")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
