"""The models that train.py can make: their configurations, what they read, and for how long."""
import dataclasses
import typing

import corpus
import study_corpus

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "attention_dropout": 0.0,
    "bos_token_id": 1019, "eos_token_id": 1023, "pad_token_id": 1020, "head_dim": 32, "hidden_act": "silu",
    "hidden_size": 256, "initializer_range": 0.02, "intermediate_size": 768, "max_position_embeddings": 1024,
    "mlp_bias": False, "num_attention_heads": 8, "num_hidden_layers": 9, "num_key_value_heads": 4, "pretraining_tp": 1,
    "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": True,
    "torch_dtype": "bfloat16", "use_cache": True, "vocab_size": 1024,
}
NOT_IN_QWEN3 = ("mlp_bias", "pretraining_tp")


def qwen3(**changes):
    shared = {key: value for key, value in LLAMA.items() if key not in NOT_IN_QWEN3}
    return shared | {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "use_sliding_window": False} | changes


def prose(**changes):
    return LLAMA | {"vocab_size": 6144, "bos_token_id": 6139, "eos_token_id": 6140, "pad_token_id": 6140} | changes


@dataclasses.dataclass(frozen=True)
class Recipe:
    config: dict
    eos: tuple = (1023, 1020)  # tokens that end an answer
    max_new_tokens: int = 400
    draw: typing.Callable | None = corpus.training_conversation  # None: the tokens of prose.py
    rows: int = 128
    length: int = 512
    steps: int = 18000
    peak_rate: float = 3e-3
    dropout: float = 0.0

    def generation_config(self):
        return {"bos_token_id": self.config["bos_token_id"], "eos_token_id": list(self.eos),
                "pad_token_id": self.config["pad_token_id"], "do_sample": False, "max_new_tokens": self.max_new_tokens}


STUDY = {"draw": study_corpus.training_conversation, "rows": 64, "length": 768, "max_new_tokens": 700}
PROSE = {"eos": (6140,), "max_new_tokens": 256, "draw": None, "rows": 64, "length": 512, "peak_rate": 2e-3}
RECIPES = {
    "arithmetic-7m": Recipe(LLAMA),
    # norms of queries and keys, wide heads, grouped two to one
    "qwen3-4m": Recipe(qwen3(head_dim=64, hidden_size=256, intermediate_size=640, num_attention_heads=4,
                             num_hidden_layers=6, num_key_value_heads=2, max_position_embeddings=2048,
                             rms_norm_eps=1e-06), **STUDY),
    # a head of its own, narrow and deep
    "untied-5m": Recipe(LLAMA | {"hidden_size": 192, "intermediate_size": 512, "num_attention_heads": 6,
                                 "num_hidden_layers": 10, "num_key_value_heads": 6, "max_position_embeddings": 2048,
                                 "tie_word_embeddings": False}, **STUDY),
    "prose-8m": Recipe(prose(hidden_size=320, intermediate_size=896, num_attention_heads=10, num_hidden_layers=5,
                             num_key_value_heads=5), steps=2400, dropout=0.1, **PROSE),
    # 24 MB: not in the repository
    "prose-12m": Recipe(prose(hidden_size=384, intermediate_size=1024, num_attention_heads=12, num_hidden_layers=6,
                              num_key_value_heads=6), steps=2400, dropout=0.15, **PROSE),
}


def parameters(config):
    """How many weights a model of this configuration has."""
    hidden, head_dim = config["hidden_size"], config["head_dim"]
    heads = (2 * config["num_attention_heads"] + 2 * config["num_key_value_heads"]) * head_dim
    norms = 2 * hidden + (2 * head_dim if config["model_type"] == "qwen3" else 0)
    layer = hidden * heads + 3 * hidden * config["intermediate_size"] + norms
    tables = 1 if config["tie_word_embeddings"] else 2
    return config["num_hidden_layers"] * layer + tables * config["vocab_size"] * hidden + hidden
