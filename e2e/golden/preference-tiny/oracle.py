"""Writes expected.jsonl and final.safetensors: DPO (Rafailov et al. 2023, equation 7) in float64, by torch's own gradients.

Each pair is four forward passes of one text each, two with the adapter and two of the base alone; nothing here knows of
windows. Only what is left of a pair by the rule of docs/run-file.md counts: both texts have half a window's rows together.
Run it in this folder: python3 oracle.py
"""
import json, math, torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

torch.set_default_dtype(torch.float64)
run = json.load(open("run.json")); c, t = run["model"], run["train"]; o, a, s = t["optimizer"], t["adapter"], t["schedule"]
W = {k: v.double() for k, v in load_file(run["init"]).items()}
P = {k: v.double().requires_grad_() for k, v in load_file(a["init"]).items()}
H, K, D = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]

def norm(x, w): return x / (x.square().mean(-1, keepdim=True) + c["rms_norm_eps"]).sqrt() * w

def turned(x, T):
    angle = torch.outer(torch.arange(T).double(), c["rope_parameters"]["rope_theta"] ** (-torch.arange(0, D, 2).double() / D))
    low, high = x[..., : D // 2], x[..., D // 2 :]
    return torch.cat([low * angle.cos() - high * angle.sin(), high * angle.cos() + low * angle.sin()], -1)

def logits(ids, adapted):
    def linear(x, name):
        y = x @ W[name + ".weight"].T; A = P.get(f"base_model.model.{name}.lora_A.weight")
        if A is None or not adapted: return y
        return y + a["alpha"] / a["rank"] * (x @ A.T) @ P[f"base_model.model.{name}.lora_B.weight"].T
    T = len(ids); x = W["model.embed_tokens.weight"][ids]; unseen = torch.ones(T, T).triu(1).bool()
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."; h = norm(x, W[at + "input_layernorm.weight"])
        q, k, v = (linear(h, f"{at}self_attn.{n}_proj").view(T, -1, D).transpose(0, 1) for n in "qkv")
        q = turned(norm(q, W[at + "self_attn.q_norm.weight"]), T); k = turned(norm(k, W[at + "self_attn.k_norm.weight"]), T)
        k, v = k.repeat_interleave(H // K, 0), v.repeat_interleave(H // K, 0)
        seen = (q @ k.transpose(1, 2) / math.sqrt(D)).masked_fill(unseen, -math.inf).softmax(-1) @ v
        x = x + linear(seen.transpose(0, 1).reshape(T, H * D), at + "self_attn.o_proj")
        h = norm(x, W[at + "post_attention_layernorm.weight"])
        x = x + linear(F.silu(linear(h, at + "mlp.gate_proj")) * linear(h, at + "mlp.up_proj"), at + "mlp.down_proj")
    return linear(norm(x, W["model.norm.weight"]), "lm_head")

def answer(prompt, text, adapted):
    """log π(answer | prompt): a token is a byte."""
    ids = torch.tensor(list(text)); own = torch.arange(len(ids)) >= max(1, len(prompt))
    log_p = logits(ids[:-1], adapted).log_softmax(-1)[torch.arange(len(ids) - 1), ids[1:]]
    return log_p[own[1:]].sum()

def fitting(line):
    """Both texts as they are trained on; None: the pair is left out. The longer one is cut first, then both alike."""
    prompt, texts = line["prompt"].encode(), [(line["prompt"] + line[k]).encode() for k in ("chosen", "rejected")]
    half = t["sequenceLength"] // 2
    while sum(len(x) - 1 for x in texts) > half: i = 0 if len(texts[0]) > len(texts[1]) else 1; texts[i] = texts[i][:-1]
    return (prompt, *texts) if min(map(len, texts)) > max(1, len(prompt)) else None

def pair_loss(prompt, chosen, rejected):
    with torch.no_grad(): reference = answer(prompt, chosen, False) - answer(prompt, rejected, False)
    return -F.logsigmoid(t["beta"] * (answer(prompt, chosen, True) - answer(prompt, rejected, True) - reference))

def rate(step):
    if step < s["warmupSteps"]: return o["learningRate"] * (step + 1) / (s["warmupSteps"] + 1)
    done = (step - s["warmupSteps"]) / (s["decaySteps"] - s["warmupSteps"])
    return o["learningRate"] * (s["minRatio"] + (1 - s["minRatio"]) * 0.5 * (1 + math.cos(math.pi * done)))

pairs = [p for p in map(fitting, map(json.loads, open(run["data"]["files"][0]))) if p]
adamw = torch.optim.AdamW(P.values(), lr=0, betas=o["betas"], eps=o["epsilon"], weight_decay=o["weightDecay"])
with open("expected.jsonl", "w") as out:
    for step in range(t["steps"]):
        own = [pairs[(step * t["globalBatchSize"] + i) % len(pairs)] for i in range(t["globalBatchSize"])]
        adamw.zero_grad(); loss = sum(pair_loss(*p) for p in own) / len(own); loss.backward()
        size = math.sqrt(sum(p.grad.square().sum().item() for p in P.values()))
        for p in P.values(): p.grad *= min(1, t["gradientClipNorm"] / (size + 1e-6))
        for group in adamw.param_groups: group["lr"] = rate(step)
        adamw.step()
        tokens = sum(len(x) - max(1, len(p[0])) for p in own for x in p[1:])
        out.write(json.dumps({"step": step, "loss": loss.item(), "gradientNorm": size, "learningRate": rate(step), "tokens": tokens}) + "\n")
save_file({k: v.detach().float().contiguous() for k, v in P.items()}, "final.safetensors")
