"""The models in PyTorch: Llama's and Qwen3's architecture, with parameters named as Hugging Face checkpoints name them."""
import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, config, size=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size or config["hidden_size"]))
        self.eps = config["rms_norm_eps"]

    def forward(self, x):
        x = x.float()
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def rotary_table(config, length, device):
    """cos and sin, each [length, head_dim] f32; the two halves of a head turn together."""
    dim = config["head_dim"]
    frequency = config["rope_theta"] ** (-torch.arange(0, dim, 2, device=device).float() / dim)
    angle = torch.outer(torch.arange(length, device=device).float(), frequency).repeat(1, 2)
    return angle.cos(), angle.sin()


def rotate(x, rotary):
    cos, sin = rotary
    left, right = x.float().chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head_dim, self.group = config["head_dim"], config["num_attention_heads"] // config["num_key_value_heads"]
        hidden, heads = config["hidden_size"], config["num_attention_heads"] * self.head_dim
        self.q_proj = nn.Linear(hidden, heads, bias=False)
        self.k_proj = nn.Linear(hidden, heads // self.group, bias=False)
        self.v_proj = nn.Linear(hidden, heads // self.group, bias=False)
        self.o_proj = nn.Linear(heads, hidden, bias=False)
        self.has_norms = config["model_type"] == "qwen3"
        if self.has_norms:
            self.q_norm = RMSNorm(config, self.head_dim)
            self.k_norm = RMSNorm(config, self.head_dim)

    def forward(self, x, rotary, mask):
        batch, length, _ = x.shape

        def heads(projected):  # [batch, heads, length, head_dim]
            return projected.view(batch, length, -1, self.head_dim).transpose(1, 2)

        q, k, v = (heads(projected) for projected in (self.q_proj(x), self.k_proj(x), self.v_proj(x)))
        if self.has_norms:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = (rotate(t, rotary).to(v.dtype) for t in (q, k))
        k, v = (t.repeat_interleave(self.group, dim=1) for t in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        self.input_layernorm = RMSNorm(config)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config)
        self.mlp = MLP(config)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def forward(self, x, rotary, mask):
        x = x + self.dropout(self.self_attn(self.input_layernorm(x), rotary, mask))
        return x + self.dropout(self.mlp(self.post_attention_layernorm(x)))


class Decoder(nn.Module):
    def __init__(self, config, dropout):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config, dropout) for _ in range(config["num_hidden_layers"]))
        self.norm = RMSNorm(config)


class Llama(nn.Module):
    def __init__(self, config, dropout=0.0):
        super().__init__()
        self.config = config
        self.model = Decoder(config, dropout)
        if not config["tie_word_embeddings"]:
            self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=config["initializer_range"])
        for layer in self.model.layers:  # the residual stream gets two additions a layer
            for projection in (layer.self_attn.o_proj, layer.mlp.down_proj):
                projection.weight.data /= (2 * config["num_hidden_layers"]) ** 0.5

    def forward(self, tokens, documents):
        """tokens, documents: [batch, length] -> logits [batch, length, vocab]. A token sees its own document's past."""
        length = tokens.shape[1]
        past = torch.ones(length, length, dtype=torch.bool, device=tokens.device).tril()
        mask = (past & (documents[:, :, None] == documents[:, None, :]))[:, None]
        rotary = rotary_table(self.config, length, tokens.device)
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, rotary, mask)
        head = self.model.embed_tokens if self.config["tie_word_embeddings"] else self.lm_head
        return F.linear(self.model.norm(x), head.weight)
