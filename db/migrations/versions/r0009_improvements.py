"""Which trials are improvements: pages draw them without reading the whole search.

The old rows are marked in the order in which they were done.

Revision ID: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_MARK = """
    UPDATE trials SET improved = true WHERE id IN (
        SELECT id FROM (
            SELECT id, latency_secs,
                   min(latency_secs) OVER (
                       PARTITION BY search_id ORDER BY done_at, id
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                   ) AS before
            FROM trials
            WHERE purpose = 'search' AND outcome = 'ok' AND latency_secs IS NOT NULL AND done_at IS NOT NULL
        ) AS curve
        WHERE before IS NULL OR latency_secs < before
    )
"""


def upgrade() -> None:
    op.add_column('trials', sa.Column('improved', sa.Boolean(), server_default=sa.false(), nullable=False))
    op.execute(_MARK)
    op.create_index(
        'ix_trials_improved', 'trials', ['search_id', 'id', 'latency_secs', 'done_at', 'improved'], unique=False,
        postgresql_where=sa.text('improved'), sqlite_where=sa.text('improved = 1'),
    )
