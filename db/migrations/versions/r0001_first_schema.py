"""The first schema: targets, profiles, workloads, jobs, searches, tasks, trials, records, workers, tokens.

Revision ID: 0001
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from db.clock import UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
JSON = sa.JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.create_table('targets',
    sa.Column('id', BIG_ID, autoincrement=True, nullable=False),
    sa.Column('key', sa.String(length=64), nullable=False),
    sa.Column('canonical', JSON, nullable=False),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_targets')),
    sa.UniqueConstraint('key', name=op.f('uq_targets_key'))
    )
    op.create_table('tokens',
    sa.Column('id', BIG_ID, autoincrement=True, nullable=False),
    sa.Column('name', sa.String(length=120), nullable=False),
    sa.Column('token_sha256', sa.String(length=64), nullable=False),
    sa.Column('scopes', JSON, nullable=False),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.Column('expires_at', UtcDateTime(), nullable=True),
    sa.Column('revoked_at', UtcDateTime(), nullable=True),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_tokens')),
    sa.UniqueConstraint('name', name=op.f('uq_tokens_name')),
    sa.UniqueConstraint('token_sha256', name=op.f('uq_tokens_token_sha256'))
    )
    op.create_table('workloads',
    sa.Column('id', BIG_ID, autoincrement=True, nullable=False),
    sa.Column('tvm_version', sa.String(length=40), nullable=False),
    sa.Column('shash', sa.String(length=16), nullable=False),
    sa.Column('ordinal', sa.Integer(), nullable=False),
    sa.Column('module_z', sa.LargeBinary(), nullable=False),
    sa.Column('module_sha256', sa.String(length=64), nullable=False),
    sa.Column('flops', sa.Float(), nullable=False),
    sa.Column('args', JSON, nullable=False),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_workloads')),
    sa.UniqueConstraint('tvm_version', 'shash', 'ordinal', name=op.f('uq_workloads_tvm_version_shash_ordinal'))
    )
    op.create_table('jobs',
    sa.Column('id', sa.String(length=24), nullable=False),
    sa.Column('name', sa.String(length=200), nullable=False),
    sa.Column('owner', sa.String(length=120), nullable=False),
    sa.Column('target_id', BIG_ID, nullable=False),
    sa.Column('target_name', sa.String(length=200), nullable=False),
    sa.Column('state', sa.String(length=16), nullable=False),
    sa.Column('desired_state', sa.String(length=16), nullable=False),
    sa.Column('priority', sa.Integer(), nullable=False),
    sa.Column('max_trials', sa.Integer(), nullable=False),
    sa.Column('max_trials_per_task', sa.Integer(), nullable=True),
    sa.Column('trials_reserved', sa.Integer(), nullable=False),
    sa.Column('strategy', sa.String(length=40), nullable=False),
    sa.Column('seed', sa.BigInteger(), nullable=False),
    sa.Column('options', JSON, nullable=False),
    sa.Column('warnings', JSON, nullable=False),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('revision', sa.BigInteger(), nullable=False),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.Column('started_at', UtcDateTime(), nullable=True),
    sa.Column('finished_at', UtcDateTime(), nullable=True),
    sa.ForeignKeyConstraint(['target_id'], ['targets.id'], name=op.f('fk_jobs_target_id_targets')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_jobs'))
    )
    op.create_index('ix_jobs_created', 'jobs', ['created_at', 'id'], unique=False)
    op.create_index('ix_jobs_state', 'jobs', ['state', 'priority'], unique=False)
    op.create_table('profiles',
    sa.Column('name', sa.String(length=120), nullable=False),
    sa.Column('target_id', BIG_ID, nullable=False),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['target_id'], ['targets.id'], name=op.f('fk_profiles_target_id_targets')),
    sa.PrimaryKeyConstraint('name', name=op.f('pk_profiles'))
    )
    op.create_table('records',
    sa.Column('id', BIG_ID, autoincrement=True, nullable=False),
    sa.Column('workload_id', BIG_ID, nullable=False),
    sa.Column('target_id', BIG_ID, nullable=False),
    sa.Column('tvm_version', sa.String(length=40), nullable=False),
    sa.Column('state', sa.String(length=16), nullable=False),
    sa.Column('trace_z', sa.LargeBinary(), nullable=False),
    sa.Column('trace_hash', sa.String(length=64), nullable=False),
    sa.Column('run_secs', JSON, nullable=False),
    sa.Column('latency_secs', sa.Float(), nullable=False),
    sa.Column('trial_id', sa.BigInteger(), nullable=True),
    sa.Column('confirm_trial_id', sa.BigInteger(), nullable=True),
    sa.Column('policy', JSON, nullable=False),
    sa.Column('device_class', sa.String(length=200), nullable=False),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['target_id'], ['targets.id'], name=op.f('fk_records_target_id_targets')),
    sa.ForeignKeyConstraint(['workload_id'], ['workloads.id'], name=op.f('fk_records_workload_id_workloads')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_records')),
    sa.UniqueConstraint('confirm_trial_id', name=op.f('uq_records_confirm_trial_id'))
    )
    op.create_index('ix_records_lookup', 'records', ['workload_id', 'target_id', 'tvm_version', 'state', 'id'], unique=False)
    op.create_table('searches',
    sa.Column('id', BIG_ID, autoincrement=True, nullable=False),
    sa.Column('key', sa.String(length=64), nullable=False),
    sa.Column('workload_id', BIG_ID, nullable=False),
    sa.Column('target_id', BIG_ID, nullable=False),
    sa.Column('tvm_version', sa.String(length=40), nullable=False),
    sa.Column('space', JSON, nullable=True),
    sa.Column('space_hash', sa.String(length=64), nullable=False),
    sa.Column('strategy', sa.String(length=40), nullable=False),
    sa.Column('seed', sa.BigInteger(), nullable=False),
    sa.Column('policy', JSON, nullable=False),
    sa.Column('policy_hash', sa.String(length=64), nullable=False),
    sa.Column('options', JSON, nullable=False),
    sa.Column('isolation_key', sa.String(length=120), nullable=False),
    sa.Column('state', sa.String(length=16), nullable=False),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('rounds', sa.Integer(), nullable=False),
    sa.Column('crashes', sa.Integer(), nullable=False),
    sa.Column('untuned_latency_secs', sa.Float(), nullable=True),
    sa.Column('best_latency_secs', sa.Float(), nullable=True),
    sa.Column('best_trial_id', sa.BigInteger(), nullable=True),
    sa.Column('stage_secs', JSON, nullable=False),
    sa.Column('lease_owner', sa.String(length=120), nullable=True),
    sa.Column('lease_epoch', sa.BigInteger(), nullable=False),
    sa.Column('lease_expires_at', UtcDateTime(), nullable=True),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['target_id'], ['targets.id'], name=op.f('fk_searches_target_id_targets')),
    sa.ForeignKeyConstraint(['workload_id'], ['workloads.id'], name=op.f('fk_searches_workload_id_workloads')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_searches')),
    sa.UniqueConstraint('key', name=op.f('uq_searches_key'))
    )
    op.create_index('ix_searches_state', 'searches', ['state', 'lease_expires_at'], unique=False)
    op.create_table('workers',
    sa.Column('id', sa.String(length=40), nullable=False),
    sa.Column('name', sa.String(length=200), nullable=False),
    sa.Column('host', sa.String(length=200), nullable=False),
    sa.Column('device', sa.String(length=120), nullable=False),
    sa.Column('device_class', sa.String(length=200), nullable=False),
    sa.Column('target_id', BIG_ID, nullable=False),
    sa.Column('role', sa.String(length=16), nullable=False),
    sa.Column('state', sa.String(length=16), nullable=False),
    sa.Column('desired_state', sa.String(length=16), nullable=False),
    sa.Column('cores', sa.Integer(), nullable=False),
    sa.Column('memory_bytes', sa.BigInteger(), nullable=False),
    sa.Column('tvm_version', sa.String(length=40), nullable=False),
    sa.Column('facts', JSON, nullable=False),
    sa.Column('holding', JSON, nullable=False),
    sa.Column('stage_secs', JSON, nullable=False),
    sa.Column('started_at', UtcDateTime(), nullable=False),
    sa.Column('heartbeat_at', UtcDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['target_id'], ['targets.id'], name=op.f('fk_workers_target_id_targets')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_workers'))
    )
    op.create_index(op.f('ix_workers_name'), 'workers', ['name'], unique=False)
    op.create_table('idempotency_keys',
    sa.Column('token_id', BIG_ID, nullable=False),
    sa.Column('key', sa.String(length=200), nullable=False),
    sa.Column('body_sha256', sa.String(length=64), nullable=False),
    sa.Column('job_id', sa.String(length=24), nullable=False),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.ForeignKeyConstraint(['job_id'], ['jobs.id'], name=op.f('fk_idempotency_keys_job_id_jobs'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['token_id'], ['tokens.id'], name=op.f('fk_idempotency_keys_token_id_tokens')),
    sa.PrimaryKeyConstraint('token_id', 'key', name=op.f('pk_idempotency_keys'))
    )
    op.create_table('tasks',
    sa.Column('id', BIG_ID, autoincrement=True, nullable=False),
    sa.Column('job_id', sa.String(length=24), nullable=False),
    sa.Column('ordinal', sa.Integer(), nullable=False),
    sa.Column('name', sa.String(length=300), nullable=False),
    sa.Column('workload_id', BIG_ID, nullable=False),
    sa.Column('search_id', BIG_ID, nullable=False),
    sa.Column('weight', sa.Float(), nullable=False),
    sa.Column('state', sa.String(length=16), nullable=False),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('trials_reserved', sa.Integer(), nullable=False),
    sa.Column('exhausted', sa.Boolean(), nullable=False),
    sa.Column('record_id', sa.BigInteger(), nullable=True),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.Column('finished_at', UtcDateTime(), nullable=True),
    sa.ForeignKeyConstraint(['job_id'], ['jobs.id'], name=op.f('fk_tasks_job_id_jobs'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['search_id'], ['searches.id'], name=op.f('fk_tasks_search_id_searches')),
    sa.ForeignKeyConstraint(['workload_id'], ['workloads.id'], name=op.f('fk_tasks_workload_id_workloads')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_tasks')),
    sa.UniqueConstraint('job_id', 'ordinal', name=op.f('uq_tasks_job_id_ordinal'))
    )
    op.create_index('ix_tasks_search', 'tasks', ['search_id', 'state'], unique=False)
    op.create_table('trials',
    sa.Column('id', BIG_ID, autoincrement=True, nullable=False),
    sa.Column('search_id', BIG_ID, nullable=False),
    sa.Column('job_id', sa.String(length=24), nullable=False),
    sa.Column('task_id', BIG_ID, nullable=False),
    sa.Column('purpose', sa.String(length=16), nullable=False),
    sa.Column('state', sa.String(length=16), nullable=False),
    sa.Column('round', sa.Integer(), nullable=False),
    sa.Column('trace_hash', sa.String(length=64), nullable=False),
    sa.Column('trace_z', sa.LargeBinary(), nullable=True),
    sa.Column('program_hash', sa.String(length=16), nullable=True),
    sa.Column('features_z', sa.LargeBinary(), nullable=True),
    sa.Column('predicted_score', sa.Float(), nullable=True),
    sa.Column('attempt', sa.Integer(), nullable=False),
    sa.Column('started_attempts', sa.Integer(), nullable=False),
    sa.Column('chunk_id', sa.String(length=32), nullable=True),
    sa.Column('dispatched_at', UtcDateTime(), nullable=True),
    sa.Column('deadline_at', UtcDateTime(), nullable=True),
    sa.Column('outcome', sa.String(length=16), nullable=True),
    sa.Column('run_secs', JSON, nullable=True),
    sa.Column('latency_secs', sa.Float(), nullable=True),
    sa.Column('incumbent_run_secs', JSON, nullable=True),
    sa.Column('incumbent_record_id', sa.BigInteger(), nullable=True),
    sa.Column('error', sa.Text(), nullable=True),
    sa.Column('stage_secs', JSON, nullable=True),
    sa.Column('worker_id', sa.String(length=40), nullable=True),
    sa.Column('device_class', sa.String(length=200), nullable=True),
    sa.Column('tvm_version', sa.String(length=40), nullable=True),
    sa.Column('created_at', UtcDateTime(), nullable=False),
    sa.Column('done_at', UtcDateTime(), nullable=True),
    sa.ForeignKeyConstraint(['job_id'], ['jobs.id'], name=op.f('fk_trials_job_id_jobs'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['search_id'], ['searches.id'], name=op.f('fk_trials_search_id_searches')),
    sa.ForeignKeyConstraint(['task_id'], ['tasks.id'], name=op.f('fk_trials_task_id_tasks'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_trials')),
    sa.UniqueConstraint('search_id', 'purpose', 'trace_hash', name=op.f('uq_trials_search_id_purpose_trace_hash'))
    )
    op.create_index('ix_trials_job_state', 'trials', ['job_id', 'state'], unique=False)
    op.create_index('ix_trials_open', 'trials', ['state', 'deadline_at'], unique=False, postgresql_where=sa.text("state = 'dispatched'"))
    op.create_index('ix_trials_program', 'trials', ['search_id', 'program_hash'], unique=False)
    op.create_index('ix_trials_search_state', 'trials', ['search_id', 'state'], unique=False)
    op.create_index('ix_trials_task', 'trials', ['task_id', 'id'], unique=False)
