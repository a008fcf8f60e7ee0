"""The global options of one run of the program."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Settings:
    """``dsn``: the server named by ``--dsn``, None where it was not given; ``json``: print JSON."""

    dsn: str | None = None
    json: bool = False


settings = Settings()
