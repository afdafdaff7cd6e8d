"""Build and measure roles: artifacts, what was built of a trial; shares of owners; tokens of workers.

Revision ID: 0003
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from db.clock import UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.create_table('artifacts',
    sa.Column('sha256', sa.String(length=64), nullable=False),
    sa.Column('data_z', sa.LargeBinary(), nullable=False),
    sa.Column('used_at', UtcDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('sha256', name=op.f('pk_artifacts'))
    )
    op.create_index(op.f('ix_artifacts_used_at'), 'artifacts', ['used_at'], unique=False)
    op.create_table('owners',
    sa.Column('name', sa.String(length=120), nullable=False),
    sa.Column('weight', sa.Float(), nullable=False),
    sa.PrimaryKeyConstraint('name', name=op.f('pk_owners'))
    )
    op.create_table('usage',
    sa.Column('owner', sa.String(length=120), nullable=False),
    sa.Column('target_id', BIG_ID, nullable=False),
    sa.Column('device_secs', sa.Float(), nullable=False),
    sa.Column('as_of', UtcDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['target_id'], ['targets.id'], name=op.f('fk_usage_target_id_targets')),
    sa.PrimaryKeyConstraint('owner', 'target_id', name=op.f('pk_usage'))
    )
    op.add_column('trials', sa.Column('role', sa.String(length=16), nullable=True))
    op.add_column('trials', sa.Column('built', JSON, nullable=True))
    op.add_column('workers', sa.Column('token_id', sa.BigInteger(), nullable=True))
