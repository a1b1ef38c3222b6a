"""A trained model as files that other engines run. Today these are ONNX graphs."""
