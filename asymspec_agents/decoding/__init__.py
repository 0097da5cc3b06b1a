"""The decoding rule (`rule`, on batched tensors), its options (`modes`), maps of vocabularies (`vocab`)."""
