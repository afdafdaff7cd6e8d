"""Which round's results a trial's own had seen: rounds may be asked for before the one before last is whole.

Revision ID: 0008
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column('trials', sa.Column('learnt_round', sa.Integer(), nullable=True))
