from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.processes.group import block_order, held_rows, shard

blocks_of_groups = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 3)), min_size=1, max_size=3)


@given(groups=st.integers(0, 40), group=st.integers(1, 3), world=st.integers(1, 9))
def test_shards_are_whole_groups_in_order_and_as_equal_as_can_be(groups: int, group: int, world: int) -> None:
    rows = list(range(groups * group))
    shards = [rows[shard(len(rows), group, rank, world)] for rank in range(world)]
    assert [row for part in shards for row in part] == rows
    lengths = [len(part) for part in shards]
    assert all(length % group == 0 for length in lengths)
    assert max(lengths) - min(lengths) <= group


@settings(deadline=None)
@given(layout=blocks_of_groups, world=st.integers(1, 5))
def test_blocks_come_back_in_their_order(layout: list[tuple[int, int]], world: int) -> None:
    blocks = tuple((groups * group, group) for groups, group in layout)
    rows = [[(block, row) for row in range(count)] for block, (count, _) in enumerate(blocks)]
    held = [
        [
            entry
            for mine, (count, group) in zip(rows, blocks, strict=True)
            for entry in mine[shard(count, group, r, world)]
        ]
        for r in range(world)
    ]
    assert [len(part) for part in held] == [len(held_rows(blocks, r, world)) for r in range(world)]
    behind_one_another = [entry for part in held for entry in part]
    order = block_order(blocks, world)
    found = [behind_one_another[place] for place in order.tolist()]
    assert found == [entry for block in rows for entry in block]
