"""Documents and images in messages, as text: for models that read nothing else, and for views that are short.

Reading order: `attachments` (messages in, messages out), `parts` (which parts carry what), `reading` (one
attachment as text), `kinds`, `converter` and `worker` (files, in a process of their own), `fetch` (URLs),
`describing`, `captioners` and `ocr` (images in words).
"""

from .attachments import Attachments, ReadMessages
from .captioners import EndpointCaptioner, TransformersCaptioner
from .describing import Captioner, TextReader
from .ocr import RapidOCRReader
from .policy import AttachmentPolicy, RemotePolicy

__all__ = [
    "AttachmentPolicy",
    "Attachments",
    "Captioner",
    "EndpointCaptioner",
    "RapidOCRReader",
    "ReadMessages",
    "RemotePolicy",
    "TextReader",
    "TransformersCaptioner",
]
