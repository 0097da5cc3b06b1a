"""`python -m vllm_asymspec …`: vLLM's own command line, in any distribution of vLLM."""

from __future__ import annotations

from .distribution import make_vllm_known

__all__ = ["main"]


def main() -> None:
    """Runs vLLM's command on this process's arguments."""
    make_vllm_known()
    from vllm.entrypoints.cli.main import main as vllm_main

    vllm_main()


if __name__ == "__main__":
    main()
