"""Class names in torch's pickles: storages, dtypes and the like, and tensor kinds without plain values."""

from __future__ import annotations

from firstdiff import dtypes
from firstdiff.errors import ReadError, RefusedError
from firstdiff.readers.pickles.values import Opaque, Table, refused, shown

_STORAGE_DTYPES = {
    "FloatStorage": "float32",
    "DoubleStorage": "float64",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "UntypedStorage": "uint8",
    "_UntypedStorage": "uint8",
    "QInt8Storage": "qint8",
    "QUInt8Storage": "quint8",
    "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
}
# the type of the elements by the storage's class
STORAGES = {
    f"{module}.{name}": dtype
    for module in ("torch", "torch.storage", "torch.cuda")
    for name, dtype in _STORAGE_DTYPES.items()
}

# functions of torch._utils that rebuild what is no plain array
UNREADABLE = {
    "_rebuild_qtensor": "is a quantised tensor, which firstdiff does not read; save tensor.dequantize() instead",
    "_rebuild_sparse_tensor": "is a sparse tensor, which firstdiff does not read; save tensor.to_dense() instead",
    "_rebuild_sparse_csr_tensor": "is a sparse tensor, which firstdiff does not read; save tensor.to_dense() instead",
    "_rebuild_nested_tensor": "is a nested tensor, which firstdiff does not read; "
    "save tensor.to_padded_tensor(0.0) instead",
    "_rebuild_meta_tensor_no_storage": "is a tensor on the meta device, which has no values; "
    "save it from the device that has them",
}

RETURN_TYPES = (
    "aminmax cummax cummin frexp geqrf histogram histogramdd kthvalue linalg_eig linalg_eigh linalg_lu linalg_qr "
    "linalg_slogdet linalg_svd lu_unpack max median min mode nanmedian qr slogdet sort svd topk triangular_solve"
).split()

_PLAIN_CLASSES = {"torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer"}

# by the beginning of the full name: what is odd about the class, and what to save
_TENSOR_CLASSES = {
    "torch.distributed.tensor.": ("which holds one rank's part of a tensor", "tensor.full_tensor()"),
    "torch.distributed._tensor.": ("which holds one rank's part of a tensor", "tensor.full_tensor()"),
    "torch.distributed._shard.": ("which holds one rank's part of a tensor", "the gathered tensor"),
    "torch.nested.": ("whose rows have lengths of their own", "tensor.to_padded_tensor(0.0)"),
    "torch.masked.": ("which hides some of its values", "tensor.get_data()"),
    "torch._subclasses.": ("which has no values", "a real tensor"),
    "torchao.": ("which is packed in a way of its own", "tensor.dequantize()"),
    "bitsandbytes.": ("which is packed in a way of its own", "the dequantised tensor"),
}

_PROPERTIES = {
    *dtypes.BY_NAME,
    *_STORAGE_DTYPES.values(),
    *"complex32 float4_e2m1fn_x2 bits8 bits16 bits1x8 bits2x4 bits4x2".split(),
    *"per_tensor_affine per_tensor_symmetric per_channel_affine per_channel_symmetric".split(),
    *"per_channel_affine_float_qparams contiguous_format channels_last channels_last_3d preserve_format".split(),
}
_FIRST_KEYS = 128


def is_plain(name: str) -> bool:
    """True for a tensor class without content beyond its values."""
    return name in _PLAIN_CLASSES


def is_property(name: str) -> bool:
    """True for a dtype, a memory format or the like, which hold no values to compare."""
    return name.startswith("torch.") and name[len("torch.") :] in _PROPERTIES


def explain_class(name: str) -> ReadError:
    """Explain that a tensor subclass is not read, and what to save in its place."""
    for beginning, (oddity, instead) in _TENSOR_CLASSES.items():
        if name.startswith(beginning):
            return ReadError(f"is a {shown(name)}, {oddity}; save {instead} instead")
    return ReadError(
        f"is a {shown(name)}, a class that firstdiff does not read; save tensor.as_subclass(torch.Tensor) instead"
    )


def explain_object(value: Opaque) -> ReadError:
    """Explain that an object is not read."""
    if value.name.startswith(tuple(_TENSOR_CLASSES)):
        return explain_class(value.name)
    keys = value.state.flat[:_FIRST_KEYS:2] if type(value.state) is Table else []
    if "_modules" in keys and "_parameters" in keys:
        return RefusedError(
            f"is a whole model ({shown(value.name)}), which only its own code can load; save model.state_dict() instead"
        )
    return refused(value.name)
