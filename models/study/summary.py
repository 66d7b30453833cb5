"""What a study found, in words and tables: docs/study/README.md, of what its report has."""
import re
import statistics


def table(titles, rows):
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in (titles, ["---"] * len(titles), *rows))


def percent(part, whole):
    return "-" if whole == 0 else f"{100 * part / whole:.2f} %"


def baseline_columns(group, numerics):
    for method in group["methods"]:
        if method["numerics"] == numerics:
            runs, seeds = method["between_runs"], method["between_seeds"]
            return [percent(method["divergent_problems"], method["problems"] if runs["pairs"] else 0),
                    "-" if runs["div_index"] is None else f"{runs['div_index']:.0f}", percent(seeds["divergent"], seeds["pairs"])]
    return ["-"] * 3


def methods_of(groups, pins_bits):
    return list(dict.fromkeys(method["numerics"] for group in groups for method in group["methods"]
                              if method["pins_bits"] == pins_bits))


def contracts_of(groups):
    """`fma-1`, `exact-1` or `int16-1`, as many as there are."""
    names = [f"`{name}`" for name in methods_of(groups, True)]
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def contract_counts(groups):
    """Pairs of answers, those that differ in a token or a logit, positions, and those with equal margins."""
    found = [method[way] for group in groups for method in group["methods"] if method["pins_bits"]
             for way in ("between_runs", "between_seeds")]
    total = lambda *keys: sum(pairs[key] for pairs in found for key in keys)
    return total("pairs"), total("divergent", "other_digests"), total("positions"), total("equal_margins")


def workloads(benches, transformers):
    """What `bench engine` and bench/transformers_step.py measured: answer tokens per second, and times those of a baseline."""
    if not benches:
        return ""
    baseline = benches[0]["baseline"]
    numerics = list(dict.fromkeys(row["numerics"] for bench in benches for row in bench["rows"]))
    methods = list(dict.fromkeys(row["numerics"] for row in transformers))
    theirs = {(row["shape"], row["numerics"]): row for row in transformers}
    shown = lambda row, tokens: f"{row['tokens_per_second']:,}" + (f" (+ {row['answer']})" if row["answer"] != tokens else "")
    lines = []
    for bench in benches:
        shape = bench["model"].split()[0]
        rates = {row["numerics"]: row["tokens_per_second"] for row in bench["rows"]}
        lines.append([shape, f"{bench['rows'][0]['batch']} x {bench['prompt']} + {bench['tokens']}",
                      *(f"{rates[name]:,.0f} ({rates[name] / rates[baseline]:.2f})" if name in rates else "-" for name in numerics),
                      *(shown(theirs[shape, name], bench["tokens"]) if (shape, name) in theirs else "-"
                        for name in methods)])
    return f"""
## Time of whole workloads

Answer tokens per second on {benches[0]["device"]}, prefill included, and in brackets times those of `{baseline}` in the same engine;
the paper has 1.17 to 1.43. The load is answers at once x tokens of a prompt + tokens of an answer. `bf16` in our engine has FP32 attention.
Transformers replays a CUDA graph for each step, with a static cache, and takes flash attention for prompts in BF16.

{table(["shape", "load", *(f"`{name}`" for name in numerics), *(f"`{name}` in transformers" for name in methods)], lines)}
"""


def memory(tables):
    """What `study memory` measured."""
    rows = [[row["shape"], f"`{row['numerics']}`", f"{row['resident_weight_bytes'] / 2**30:.2f}",
             f"{row['transient_peak_bytes'] / 2**30:.3f}", f"{row['kv_tokens']:,}"] for of in tables for row in of["rows"]]
    if not rows:
        return ""
    budgets = ", ".join(dict.fromkeys(f"{of['budget_bytes'] / 2**30:.0f} GiB of {of['device']}" for of in tables))
    return f"""
## Memory

Weights, the peak of a forward pass beside them, and the keys and values that the rest of {budgets} holds.
The paper's Table 2 has, for the 8B shape, 16.92 and 0.445 GiB by LayerCast and 15.94 and 0.051 GiB by its kernels, and for
Qwen3-14B 30.41 and 0.673, and 28.96 and 0.060 GiB. Our peaks have the logits and workspaces of the engine in them.

{table(["shape", "numerics", "weights, GiB", "peak, GiB", "tokens of keys and values"], rows)}
"""


def ablations(files):
    """What `ablate` measured: each claim, and whether it held."""
    experiments = [experiment for of in files for experiment in of["experiments"]]
    if not experiments:
        return ""
    rows = [[experiment["rule"].upper(), claim["text"], "yes" if claim["held"] else "no"]
            for experiment in experiments for claim in experiment["claims"]]
    machines = ", ".join(dict.fromkeys(experiment["machine"] for experiment in experiments))
    return f"""
## What each rule is worth

One rule of the contract is switched off at a time, on {machines}; [ablations.md](../ablations.md)
tells how, and the page has the figures.

{table(["rule", "claim", "held"], rows)}
"""


def write(groups, commit, benches, transformers, memories, ablated):
    pairs, other, positions, equal = contract_counts(groups)
    baselines = methods_of(groups, False)
    ratios = [method["predicted"] / method["measured"] for group in groups for method in group["methods"] if method.get("measured")]
    platforms = {}
    for group in groups:
        for made in group["runs"]:
            platforms.setdefault(made["name"].removesuffix(".run"), (made, []))[1].append(group)
    vendor = lambda made: re.sub(r"^(OpenBLAS \S+) .*, (\S+ kernels)$", r"\1, \2", made["vendor"]) or "-"
    return f"""# The study

[report.html](report.html) shows all of it, with figures; [study.md](../study.md) says what each word means.
`models/study/run_study.py` makes both files, with the [models and tasks](../../models/study/README.md) of this repository. The
runs are by commit {commit}.

**Contracts.** Of {pairs:,} pairs of answers by {contracts_of(groups)}, between platforms and between seeds, {other:,} have
a token or a logit that differs. Margins are equal, bit for bit, at {equal:,} of {positions:,} positions.

**Baselines.** Div%: problems whose tokens differ between at least one pair of platforms at the same seed; d: the mean index of the first
such token; seeds: pairs of orders of arrival, on one platform, whose tokens differ. Predicted over measured divergence has a
median of {f'{statistics.median(ratios):.2f}' if ratios else '-'} over {len(ratios)} cells where some is measured; in the paper it is 1.5.

{table(["model", "task", "problems", "platforms", "contracts: pairs that differ",
        *(title for name in baselines for title in (f"`{name}` Div%", "d", "seeds"))],
       [[group["model"], group["task"], group["problems"], len(group["runs"]), "{1} of {0:,}".format(*contract_counts([group])),
         *(cell for name in baselines for cell in baseline_columns(group, name))] for group in groups])}
{workloads(benches, transformers)}{memory(memories)}{ablations(ablated)}
## What ran where

{table(["platform", "device", "library of the baselines", "answers at once", "models x tasks"],
       [[name, made["device"], vendor(made), made["batch"], len(of)] for name, (made, of) in platforms.items()])}
"""
