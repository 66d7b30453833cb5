"""Asks a model a question through the C ABI, with nothing but Python's standard library.
Usage: generate.py LIBREPROFUSE_SO MODEL_FOLDER [QUESTION]
"""
import ctypes as c
import json
import sys

TYPES = {"u32": c.c_uint32, "i32": c.c_int32, "i64": c.c_int64, "u64": c.c_uint64, "size": c.c_size_t,
         "f32": c.c_float, "text": c.c_char_p, "ptr": c.c_void_p}


def struct(name, fields):  # "type name name; type name": in the order of reprofuse/c/model.h
    groups = [group.split() for group in fields.split(";")]
    return type(name, (c.Structure,), {"_fields_": [(field, TYPES[kind]) for kind, *names in groups for field in names]})


TYPES["sampling"] = struct("Sampling", "f32 temperature; i32 top_k; f32 top_p min_p repetition_penalty; u64 seed")
Request = struct("Request", """u32 struct_size struct_version; ptr prompt; size prompt_count; text prompt_text;
    sampling sampling; i64 max_tokens; i32 choices priority; ptr stop_tokens; size stop_token_count; ptr stop_strings;
    size stop_string_count; i32 keep_stop_string skip_special_tokens logprobs prompt_logprobs digest""")
Update = struct("Update", """u32 struct_size struct_version; i32 kind choice; text text; size text_bytes; ptr tokens;
    size token_count; ptr prompt; size prompt_count; i64 cached_prompt_tokens; i32 finish_reason stop_token; text
    stop_string digest error; i32 error_status; ptr logits_roots; size logits_root_count""")


def main(library, folder, question="What is 12 + 30?"):
    lib = c.CDLL(library)
    lib.reprofuse_last_error.restype = c.c_char_p
    assert lib.reprofuse_abi_version() == 1

    def call(name, *args):
        if getattr(lib, "reprofuse_" + name)(*args) != 0:
            sys.exit(lib.reprofuse_last_error().decode())

    context, checkpoint, model, engine, answers, tokens = (c.c_void_p() for _ in range(6))
    call("context_create", None, c.byref(context))
    call("checkpoint_open", folder.encode(), c.byref(checkpoint))
    call("model_load", context, checkpoint, None, c.byref(model))
    call("engine_create", model, None, c.byref(engine))
    request, update, count = Request(), Update(), c.c_size_t()
    call("request_init", c.byref(request), c.sizeof(request))
    messages = json.dumps([{"role": "user", "content": question}]).encode()
    call("checkpoint_encode_chat", checkpoint, messages, None, c.byref(tokens), c.byref(count))
    request.prompt, request.prompt_count, request.digest = tokens, count, 1
    call("engine_submit", engine, c.byref(request), c.byref(answers))
    while update.kind != 2:  # REPROFUSE_NEXT_FINISHED
        call("answers_next", answers, c.c_int64(10000), c.byref(update), c.c_size_t(c.sizeof(update)))
        print((update.text or b"").decode(), end="", flush=True)
        if update.finish_reason != 0:  # REPROFUSE_FINISH_NONE
            if update.error:
                sys.exit(update.error.decode())
            print("\ndigest", update.digest.decode())
    lib.reprofuse_free(tokens)
    handles = {"answers": answers, "engine": engine, "model": model, "checkpoint": checkpoint, "context": context}
    for name, handle in handles.items():
        getattr(lib, f"reprofuse_{name}_destroy")(handle)


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) > 2 else sys.exit(__doc__)
