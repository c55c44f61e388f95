"""Record what a model, or any other program, computes. Imports torch only when a torch model is captured."""

from firstdiff.capturing.onnx_model import Captured, capture_onnx
from firstdiff.capturing.recording import Recording, record
from firstdiff.capturing.taps import tap
from firstdiff.capturing.torch_model import Capture, CaptureWarning, capture

__all__ = ["Capture", "CaptureWarning", "Captured", "Recording", "capture", "capture_onnx", "record", "tap"]
