"""The reference engine on transformers: `load` two models, `engine` decodes, `loop` is the method itself."""
