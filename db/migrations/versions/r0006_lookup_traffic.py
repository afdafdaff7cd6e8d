"""Lookup traffic, and indexes with which pages of 100,000 trials and the fleet's timeline read no rows.

Revision ID: 0006
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from db.clock import UtcDateTime

revision = "0006"
down_revision = "0004"
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.create_table('lookup_traffic',
    sa.Column('hour', UtcDateTime(), nullable=False),
    sa.Column('target_key', sa.String(length=64), nullable=False),
    sa.Column('hits', sa.BigInteger(), nullable=False),
    sa.Column('near', sa.BigInteger(), nullable=False),
    sa.Column('misses', sa.BigInteger(), nullable=False),
    sa.PrimaryKeyConstraint('hour', 'target_key', name=op.f('pk_lookup_traffic'))
    )
    op.create_table('lookup_misses',
    sa.Column('shash', sa.String(length=16), nullable=False),
    sa.Column('target_key', sa.String(length=64), nullable=False),
    sa.Column('tvm_version', sa.String(length=40), nullable=False),
    sa.Column('target', JSON, nullable=False),
    sa.Column('count', sa.BigInteger(), nullable=False),
    sa.Column('first_at', UtcDateTime(), nullable=False),
    sa.Column('last_at', UtcDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('shash', 'target_key', 'tvm_version', name=op.f('pk_lookup_misses'))
    )
    op.create_index('ix_lookup_misses_last', 'lookup_misses', ['last_at'], unique=False)
    op.drop_index('ix_trials_curve', table_name='trials')
    op.create_index('ix_trials_curve', 'trials', ['search_id', 'purpose', 'id', 'outcome', 'latency_secs', 'predicted_score', 'round', 'done_at'], unique=False)
    op.create_index('ix_trials_done', 'trials', ['done_at', 'worker_id', 'outcome'], unique=False)
