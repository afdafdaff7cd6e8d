"""What workloads compute, for the search on the records page; read from the modules that are there.

Revision ID: 0010
"""

import zlib

import sqlalchemy as sa
from alembic import op

from db.operations import operations

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_BATCH = 500


def upgrade() -> None:
    op.add_column('workloads', sa.Column('operations', sa.String(length=400), nullable=True))
    workloads = sa.table(
        'workloads', sa.column('id', sa.BigInteger), sa.column('module_z', sa.LargeBinary),
        sa.column('operations', sa.String),
    )
    connection, last = op.get_bind(), 0
    while True:
        newer = sa.select(workloads.c.id, workloads.c.module_z).where(workloads.c.id > last)
        found = connection.execute(newer.order_by(workloads.c.id).limit(_BATCH)).all()
        if not found:
            return
        for workload_id, module_z in found:
            said = operations(zlib.decompress(module_z).decode())
            connection.execute(
                sa.update(workloads).where(workloads.c.id == workload_id).values(operations=said)
            )
        last = found[-1][0]
