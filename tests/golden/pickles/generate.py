"""Small adapters in the spellings of NumPy pickles that the oracle's files do not have.

    python generate.py

needs numpy and ml_dtypes; the files here were made with numpy 2.4.6 and ml_dtypes 0.6.0 on Python 3.11.
A is [1, 2, 3] of 0, 0.5, 1, ..., B is [1, 3, 2] of 0, -0.5, -1, ...
"""
import pathlib
import pickle

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
PATH = "stack/layers/block/self_attn/q_proj/kernel"


def body(convert, **fields):
    a = convert(np.arange(6).reshape(1, 2, 3) / 2)
    b = convert(np.arange(6).reshape(1, 3, 2) / -2)
    return {"lora": {PATH: {"A": a, "B": b}}, "scale": 2.0, "rank": 3, "base": "base.pkl", **fields}


def write(name, value, protocol):
    (HERE / f"{name}.pkl").write_bytes(pickle.dumps(value, protocol=protocol))


for protocol in (2, 4, 5):
    write(f"bfloat16.protocol{protocol}", body(lambda x: x.astype(ml_dtypes.bfloat16)), protocol)
    write(f"float64.protocol{protocol}", body(lambda x: x.astype("f8")), protocol)
    write(f"fortran.protocol{protocol}", body(lambda x: np.asfortranarray(x.astype("f4"))), protocol)
write("writable.protocol5", body(lambda x: np.array(x, "f4")), 5)
write("view.protocol4", body(lambda x: np.concatenate([x, x], -1).astype("f4")[..., : x.shape[-1]]), 4)
write("scalars.protocol4", body(
    lambda x: x.astype("f2"), scale=np.float64(2), rank=np.int32(3), half=np.float16(0.5), brain=ml_dtypes.bfloat16(1.5),
    single=np.float32(0.25), flag=np.bool_(True), wide=np.int64(-7), long=-(1 << 40), text="é", nothing=None,
    nested={"a": [1, (2, 3.5)], "b": True}), 4)
write("integers.protocol4", body(lambda x: x.astype("i8")), 4)
write("big_endian.protocol4", body(lambda x: x.astype(">f4")), 4)
write("objects.protocol4", body(lambda x: x.astype(object)), 4)
