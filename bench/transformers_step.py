"""One decode step of a Llama-3.2-3B-shaped model in Hugging Face transformers, as CUDA graph replay: the baseline of
`reprofuse bench model`. BF16 as frameworks run it, and LayerCast: BF16 weights, each cast to FP32 for its matmul.

transformers_step.py [--batch 1,32] [--context 1024]: prints one JSON object per line.
"""
import argparse
import json
import statistics

import torch
import transformers

SHAPE = dict(vocab_size=128256, hidden_size=3072, intermediate_size=8192, num_hidden_layers=28,
             num_attention_heads=24, num_key_value_heads=8, head_dim=128, max_position_embeddings=4096,
             rope_theta=500000.0, tie_word_embeddings=True)


class LayerCastLinear(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.weight = linear.weight

    def forward(self, x):
        return torch.nn.functional.linear(x, self.weight.float())


def make_model(layercast):
    torch.manual_seed(1)
    config = transformers.LlamaConfig(**SHAPE)
    with torch.device("cuda"):
        torch.set_default_dtype(torch.bfloat16)
        model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="sdpa").eval()
        torch.set_default_dtype(torch.float32)
    if layercast:
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


@torch.inference_mode()
def time_step(model, batch, context, dtype):
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
    times = []
    for _ in range(15):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", default="1,32")
    parser.add_argument("--context", type=int, default=1024)
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    for name, layercast in (("bf16", False), ("layercast", True)):
        model = make_model(layercast)
        for batch in map(int, arguments.batch.split(",")):
            milliseconds = time_step(model, batch, arguments.context, torch.float32 if layercast else torch.bfloat16)
            print(json.dumps({"transformers": transformers.__version__, "numerics": name, "batch": batch,
                              "context": arguments.context, "step_ms": round(milliseconds, 3)}), flush=True)
        del model
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
