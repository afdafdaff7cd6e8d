"""Indexes with which pages of a job's trials, an owner's jobs and open trials read only their own rows.

Revision ID: 0007
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index('ix_jobs_owner', 'jobs', ['owner', 'created_at', 'id'], unique=False)
    op.create_index('ix_searches_target', 'searches', ['target_id', 'id'], unique=False)
    op.drop_index('ix_trials_job_state', table_name='trials')
    op.create_index('ix_trials_job', 'trials', ['job_id', 'id'], unique=False)
    op.drop_index('ix_trials_open', table_name='trials')
    op.create_index('ix_trials_open', 'trials', ['state', 'search_id'], unique=False, postgresql_where=sa.text("state IN ('queued', 'dispatched')"))
