"""The dashboard: browser keys, and indexes that cover curves, counts and failures.

Revision ID: 0002
"""

import sqlalchemy as sa
from alembic import op

from db.clock import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table('browser_keys',
    sa.Column('id', BIG_ID, autoincrement=True, nullable=False),
    sa.Column('token_id', BIG_ID, nullable=False),
    sa.Column('kind', sa.String(length=16), nullable=False),
    sa.Column('key_sha256', sa.String(length=64), nullable=False),
    sa.Column('read_only', sa.Boolean(), nullable=False),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.Column('expires_at', UtcDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['token_id'], ['tokens.id'], name=op.f('fk_browser_keys_token_id_tokens'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_browser_keys')),
    sa.UniqueConstraint('key_sha256', name=op.f('uq_browser_keys_key_sha256'))
    )
    op.create_index('ix_trials_curve', 'trials', ['search_id', 'purpose', 'id', 'outcome', 'latency_secs'], unique=False)
    op.create_index('ix_trials_count', 'trials', ['job_id', 'purpose', 'task_id', 'state', 'outcome'], unique=False)
    op.create_index('ix_trials_outcome', 'trials', ['purpose', 'outcome', 'id'], unique=False)
