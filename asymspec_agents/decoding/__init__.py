"""The decoding rule: pure functions on batched tensors (`rule`, needs torch) and its options (`modes`)."""
