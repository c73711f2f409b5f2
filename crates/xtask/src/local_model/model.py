"""Writes a model that llama.cpp can run, and serves it.

The model has no knowledge: its weights determine which token follows which. After a prompt, it
calls the tool list_files, and after a result, it says that it is done. Everything else is real: the
server, its chat template, its streams, its parser for tool calls, its token counts and its errors.
"""

import os
import sys

import gguf
import numpy
import xllamacpp

CALL = '<tool_call>\n{"name": "list_files", "arguments": {}}\n</tool_call>'
TEMPLATE = """{%- if tools %}<|start|>system
You can call tools. Write a call as <tool_call>{"name": ..., "arguments": ...}</tool_call>.
{%- for tool in tools %}
{{ tool | tojson }}
{%- endfor %}<|end|>
{%- endif %}
{%- for message in messages %}<|start|>{{ message.role }}
{%- if message.content %}
{{ message.content }}
{%- endif %}
{%- for call in message.tool_calls or [] %}
<tool_call>
{"name": "{{ call.function.name }}", "arguments": {{ call.function.arguments | tojson }}}
</tool_call>
{%- endfor %}<|end|>
{%- endfor %}
{%- if add_generation_prompt %}<|start|>{% if messages[-1].role == 'tool' %}<|answer|>{% else %}<|begin|>{% endif %}{% endif %}"""


def byte_tokens():
    """Returns the characters that represent the 256 bytes in the vocabulary of GPT-2."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    names = {byte: chr(byte) for byte in plain}
    names.update({byte: chr(256 + place) for place, byte in enumerate(others)})
    return [names[byte] for byte in range(256)]


def encode(text):
    names = byte_tokens()
    return "".join(names[byte] for byte in text.encode())


def write_model(path):
    special = ["<|end|>", "<|start|>", "<|begin|>", "<|answer|>"]
    pieces = ["The files", " are", " listed."]
    call = [CALL[:20], CALL[20:50], CALL[50:]]
    tokens = byte_tokens() + [encode(piece) for piece in pieces + call] + special
    number = {token: place for place, token in enumerate(tokens)}
    size = 320
    assert len(tokens) <= size

    def follow(first, texts):
        chain = [number[first], *(number[encode(text)] for text in texts), number["<|end|>"]]
        return list(zip(chain, chain[1:]))

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(65536)
    writer.add_embedding_length(size)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(10)
    writer.add_head_count_kv(10)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(32)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    control = gguf.TokenType.CONTROL
    writer.add_token_types(
        [control if token in special else gguf.TokenType.NORMAL for token in tokens]
    )
    writer.add_token_merges([f"{encode('T')} {encode('h')}"])
    writer.add_bos_token_id(number["<|start|>"])
    writer.add_eos_token_id(number["<|end|>"])
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)

    embedding = numpy.zeros((len(tokens), size), dtype=numpy.float32)
    embedding[numpy.arange(len(tokens)), numpy.arange(len(tokens))] = 1
    output = numpy.zeros((len(tokens), size), dtype=numpy.float32)
    for before, after in follow("<|begin|>", call) + follow("<|answer|>", pieces):
        output[after, before] = 10
    zeros = lambda *shape: numpy.zeros(shape, dtype=numpy.float32)
    ones = numpy.ones(size, dtype=numpy.float32)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", ones)
    for name in ["attn_norm", "ffn_norm"]:
        writer.add_tensor(f"blk.0.{name}.weight", ones)
    for name in ["attn_q", "attn_k", "attn_v", "attn_output"]:
        writer.add_tensor(f"blk.0.{name}.weight", zeros(size, size))
    for name in ["ffn_gate", "ffn_up"]:
        writer.add_tensor(f"blk.0.{name}.weight", zeros(32, size))
    writer.add_tensor("blk.0.ffn_down.weight", zeros(size, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def serve(path):
    """Serves the model on a free port, prints the address, and exits when standard input ends."""
    params = xllamacpp.CommonParams()
    params.model.path = path
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_ctx = 32768
    params.n_parallel = 1
    params.cpuparams.n_threads = 1
    params.sampling.temp = 0.0
    params.warmup = False
    params.use_jinja = True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    # The threads of the server do not stop by themselves.
    os._exit(0)


if __name__ == "__main__":
    write_model(sys.argv[1])
    serve(sys.argv[1])
