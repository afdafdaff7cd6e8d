"""Signed records, verification of imports, and the anchor block of a workload.

Revision ID: 0004
"""

import sqlalchemy as sa
from alembic import op

from db.clock import UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('signing_keys',
    sa.Column('id', sa.String(length=16), nullable=False),
    sa.Column('public_key', sa.String(length=64), nullable=False),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_signing_keys'))
    )
    op.add_column('records', sa.Column('signature', sa.String(length=96), nullable=True))
    op.add_column('records', sa.Column('signing_key_id', sa.String(length=16), nullable=True))
    op.add_column('records', sa.Column('verify_search_id', sa.BigInteger(), nullable=True))
    op.add_column('workloads', sa.Column('anchor_hash', sa.String(length=16), nullable=True))
    op.create_index('ix_workloads_shash', 'workloads', ['shash'], unique=False)
    op.create_index('ix_workloads_anchor', 'workloads', ['anchor_hash', 'tvm_version'], unique=False)
