#!/usr/bin/env bash
# What:     peft 0.21.0 beside transformers 5.18.0 (torch 2.13.0, CPU), both loading one LoRA folder. 2026-11-30.
# Guessed:  tensors of the file without a target in adapter_config.json are named, as missing ones are.
# Seen:     PeftModel.from_pretrained drops them without a word, and the model computes another function; transformers'
#           own load_adapter prints a table of the same tensors.
# Matters:  a folder whose config was shortened or rewritten loads "fine" with half of what was trained.
# Instead:  compare the tensors' names with target_modules before loading, and refuse what differs.
source "$(dirname "$0")/common.sh"
enter_python torch==2.13.0 transformers==5.18.0 peft==0.21.0
cat > run.py <<'PY'
import contextlib, io, json, logging, sys, warnings

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

changed = []


def say(what, guessed, stated, seen):
    print(f"\n{what}\n  guessed: {guessed}\n  seen:    {seen}")
    if seen != stated:
        changed.append(f"{what}: stated {stated}, seen {seen}")


def base():
    torch.manual_seed(0)
    sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, vocab_size=64, max_position_embeddings=32)
    return LlamaForCausalLM(LlamaConfig(num_attention_heads=4, num_key_value_heads=2, **sizes)).eval()


ids = torch.arange(10)[None]
lora = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
trained = get_peft_model(base(), lora).eval()
trained.save_pretrained("adapter")
with open("adapter/adapter_config.json") as file:
    config = json.load(file)
with open("adapter/adapter_config.json", "w") as file:
    json.dump({**config, "target_modules": ["q_proj"]}, file)

heard = io.StringIO()
logging.basicConfig(stream=heard, force=True)
with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
    warnings.simplefilter("always")
    loaded = PeftModel.from_pretrained(base(), "adapter").eval()
said = [str(one.message) for one in warned] + heard.getvalue().split()
named = "v_proj" in " ".join(said)
say("PEFT names the tensors of v_proj that it leaves out", True, False, named)
with torch.no_grad():
    same = torch.allclose(loaded(ids).logits, trained(ids).logits, atol=1e-4)
say("the model computes what was trained", False, False, same)
info = base().load_adapter("adapter")
say("transformers finds them", 4, 4, len(info.unexpected_keys))
print("\nas stated" if not changed else f"\nchanged: {'; '.join(changed)}")
sys.exit(1 if changed else 0)
PY
echo "with torch 2.13.0, transformers 5.18.0, peft 0.21.0, $("$python" --version)"
own/bin/python run.py 2>/dev/null
