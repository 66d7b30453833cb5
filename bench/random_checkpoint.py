"""Writes a checkpoint of a published shape with random weights, in BF16: a model of real size to serve and to time.

random_checkpoint.py SHAPE DIRECTORY: llama-3.2-3b, llama-8b or qwen3-4b. Needs PyTorch, transformers and a GPU. There is
no tokenizer: prompts are token ids.
"""
import sys

import transformers_step

if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in transformers_step.SHAPES:
        sys.exit(__doc__)
    shape, directory = sys.argv[1:]
    transformers_step.make_model(transformers_step.SHAPES[shape], casts_weights=False).save_pretrained(directory)
