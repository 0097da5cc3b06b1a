"""What transformers and vLLM need of torchvision to prepare images, for a PyTorch that it doesn't fit.

Tests put this folder on the path where the real package is not installed: vLLM's Qwen-VL models import it.
"""

__version__ = "0.27.0"
