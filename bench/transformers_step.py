"""Models of published shapes in Hugging Face transformers, the baseline of `reprofuse bench model` and `bench engine`.

BF16 as frameworks run it, and LayerCast: BF16 weights, each cast to FP32 for its matmul. A step is one token for every text, with a
static cache and CUDA graph replay. A prefill is one prompt in one pass; PyTorch takes its flash attention for it in BF16. A workload
is a batch of prompts of 256 tokens and answers of --answer tokens: its prefill, and as many steps in a cache of that length.

transformers_step.py [--shape llama-3.2-3b] [--numerics bf16,layercast] [--batch 1,32] [--context 1024]
                     [--prefill 2048,8192] [--answer 1024]: prints one JSON object per line.
"""
import argparse
import json
import statistics

import torch
import transformers

PROMPT = 256  # tokens of a workload's prompts
COMMON = dict(head_dim=128, num_key_value_heads=8, max_position_embeddings=131072, rms_norm_eps=1e-5)
LLAMA = dict(COMMON, vocab_size=128256, rope_theta=500000.0)
SHAPES = {
    "llama-3.2-3b": transformers.LlamaConfig(**LLAMA, hidden_size=3072, intermediate_size=8192, num_hidden_layers=28,
                                             num_attention_heads=24, tie_word_embeddings=True),
    "llama-8b": transformers.LlamaConfig(**LLAMA, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
                                         num_attention_heads=32, tie_word_embeddings=False),
    "qwen3-4b": transformers.Qwen3Config(**COMMON, vocab_size=151936, hidden_size=2560, intermediate_size=9728,
                                         num_hidden_layers=36, num_attention_heads=32, tie_word_embeddings=True),
}


class LayerCastLinear(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.weight = linear.weight

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight.float())


METHODS = {"bf16": False, "layercast": True}  # by the names that our baselines have: whether layers cast their weights


def make_model(config, casts_weights):
    torch.manual_seed(1)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="sdpa").eval()
        torch.set_default_dtype(torch.float32)
    if casts_weights:
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, torch.nn.Linear):
                    setattr(module, name, LayerCastLinear(child))
        embed = model.model.embed_tokens
        embed.register_forward_hook(lambda module, inputs, output: output.float())
        for module in model.modules():
            if "RMSNorm" in type(module).__name__:
                module.weight.data = module.weight.data.float()
    return model


def median_ms(work, rounds):
    """Milliseconds on the device."""
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


@torch.inference_mode()
def time_step(model, batch, context):
    cache = transformers.StaticCache(config=model.config, max_cache_len=context + 64)
    tokens = torch.randint(0, 1000, (batch, 1), device="cuda")
    position = torch.full((1,), context, device="cuda", dtype=torch.long)

    def step():
        return model(tokens, past_key_values=cache, cache_position=position, position_ids=position[None].expand(batch, 1),
                     use_cache=True).logits

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return median_ms(graph.replay, 15)


@torch.inference_mode()
def time_prefill(model, batch, length):
    """With a cache that grows, and logits of the last token alone."""
    tokens = torch.randint(0, 1000, (batch, length), device="cuda")

    def work():
        model(tokens, use_cache=True, logits_to_keep=1)

    work()
    return median_ms(work, 3)


def main():
    numbers = lambda text: [int(word) for word in text.split(",")]
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.2-3b")
    parser.add_argument("--numerics", type=lambda text: text.split(","), default=list(METHODS))
    parser.add_argument("--batch", type=numbers, default=[1, 32])
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--prefill", type=numbers, default=[], help="lengths of prompts")
    parser.add_argument("--answer", type=int, help="tokens of each answer of a workload, instead of single steps")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    for name in arguments.numerics:
        model = make_model(SHAPES[arguments.shape], METHODS[name])

        def report(**values):
            print(json.dumps({"transformers": transformers.__version__, "shape": arguments.shape, "numerics": name} | values),
                  flush=True)

        for length in arguments.prefill:
            report(prompt=length, tokens_per_second=round(length / time_prefill(model, 1, length) * 1e3))
        for batch in arguments.batch:
            if arguments.answer is None:
                report(batch=batch, context=arguments.context, step_ms=round(time_step(model, batch, arguments.context), 3))
                continue
            prefill = time_prefill(model, batch, PROMPT)
            step = time_step(model, batch, PROMPT + arguments.answer)
            report(batch=batch, prompt=PROMPT, answer=arguments.answer, prefill_ms=round(prefill, 1), step_ms=round(step, 3),
                   tokens_per_second=round(batch * arguments.answer / (prefill + step * arguments.answer) * 1e3))
        del model
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
