"""Types of parameters; imported for type checking only, so that nothing needs SQLAlchemy at run time."""

from __future__ import annotations

from typing import Any

import psycopg
from sqlalchemy import Connection as SqlalchemyConnection
from sqlalchemy.ext.asyncio import AsyncConnection as SqlalchemyAsyncConnection
from sqlalchemy.ext.asyncio import AsyncSession as SqlalchemyAsyncSession
from sqlalchemy.orm import Session as SqlalchemySession

# What may be handed in as conn=: the call then runs in the caller's transaction.
CallersConnection = psycopg.Connection[Any] | SqlalchemyConnection | SqlalchemySession
AsyncCallersConnection = psycopg.AsyncConnection[Any] | SqlalchemyAsyncConnection | SqlalchemyAsyncSession
