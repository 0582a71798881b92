"""Models: scorers and chat models behind two Protocols, the journal every call goes through, and canaries."""

from __future__ import annotations
