#!/usr/bin/env python3
"""One rank of a job that calls each collective with gloo and with lockstep on the same tensors, and compares the results.

    torchrun --nproc-per-node 3 tests/python/compare_with_gloo.py [WORDS...]

With words, only the comparisons whose names contain one of them. Values are small whole numbers, so that every dtype holds
the exact result. The last line names the number of comparisons.
"""
import os
import sys

import torch
import torch.distributed as dist

import lockstep  # noqa: F401: it registers the backend

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64]
SHAPES = [(), (1,), (7,), (3, 4), (0,), (70000,)]
OPERATORS = ["SUM", "PRODUCT", "MIN", "MAX"]
BITWISE = ["BAND", "BOR", "BXOR"]


class Comparison:
    """The two groups of all ranks."""

    def __init__(self):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.groups = {name: dist.new_group(backend=name) for name in ("gloo", "lockstep")}
        self.count = 0

    def values(self, shape, dtype, salt=0, rank=None):
        rank = self.rank if rank is None else rank
        generator = torch.Generator().manual_seed(100 * salt + rank)
        return torch.randint(1, 4, shape, generator=generator).to(dtype)

    def same(self, what, call):
        """`call(group)` gives a list of tensors."""
        expected, found = (call(self.groups[name]) for name in ("gloo", "lockstep"))
        assert len(expected) == len(found), what
        for one, other in zip(expected, found):
            assert one.shape == other.shape and one.dtype == other.dtype, what
            assert torch.equal(one, other), f"{what} on rank {self.rank}: gloo has {one}, lockstep has {other}"
        self.count += 1


def all_reduce(c):
    for dtype in DTYPES:
        for shape in SHAPES:
            for name in OPERATORS + (BITWISE if not dtype.is_floating_point else []):
                def call(group, name=name):
                    tensor = c.values(shape, dtype)
                    dist.all_reduce(tensor, getattr(dist.ReduceOp, name), group=group)
                    return [tensor]
                c.same(f"all_reduce {name} of {dtype} {shape}", call)

    tensor = c.values((6, 4), torch.float32)
    dist.all_reduce(tensor.t(), group=c.groups["lockstep"])
    other = c.values((6, 4), torch.float32)
    dist.all_reduce(other, group=c.groups["gloo"])
    assert torch.equal(tensor, other)
    c.count += 1


def all_reduce_more(c):
    """What gloo does not have, with expectations of its own."""
    group = c.groups["lockstep"]
    everyone = [c.values((5,), torch.float32, rank=rank) for rank in range(c.size)]
    tensor = c.values((5,), torch.float32)
    dist.all_reduce(tensor, dist.ReduceOp.AVG, group=group)
    assert torch.equal(tensor, sum(everyone) / c.size)
    tensor = c.values((5,), torch.float32)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5), group=group)
    assert torch.equal(tensor, sum(everyone) * 0.5)
    for dtype in (torch.int16, torch.bool):
        tensor = c.values((5,), torch.int64) > 1 if dtype == torch.bool else c.values((5,), dtype)
        expected = tensor.to(torch.int64)
        dist.all_reduce(expected, group=c.groups["gloo"])
        dist.all_reduce(tensor, group=group)
        assert torch.equal(tensor, expected.to(dtype)), (dtype, tensor, expected)
    tensor = torch.complex(c.values((4,), torch.float32), c.values((4,), torch.float32, salt=1))
    expected = torch.view_as_real(tensor).clone()
    dist.all_reduce(expected, group=c.groups["gloo"])
    dist.all_reduce(tensor, group=group)
    assert torch.equal(torch.view_as_real(tensor), expected)
    c.count += 5


def all_reduce_sparse(c):
    for dtype in (torch.float32, torch.int64):
        def call(group):
            indices = torch.arange(c.rank + 1).unsqueeze(0) * 2
            tensor = torch.sparse_coo_tensor(indices, c.values((c.rank + 1, 3), dtype), (10, 3))
            dist.all_reduce(tensor, group=group)
            return [tensor.to_dense()]
        c.same(f"all_reduce of sparse {dtype}", call)


def all_reduce_coalesced(c):
    def call(group):
        tensors = [c.values((3,), torch.float32), c.values((2, 2), torch.float32, salt=1)]
        dist.all_reduce_coalesced(tensors, group=group)
        return tensors
    c.same("all_reduce_coalesced", call)

    def managed(group):
        tensors = [c.values((3,), torch.float32), c.values((2, 2), torch.float32, salt=1)]
        with dist._coalescing_manager(group):
            for tensor in tensors:
                dist.all_reduce(tensor, group=group)
        return tensors
    c.same("_coalescing_manager of all_reduce", managed)


def broadcast(c):
    for dtype in DTYPES:
        for shape in SHAPES:
            for root in range(c.size):
                def call(group):
                    tensor = c.values(shape, dtype)
                    dist.broadcast(tensor, root, group=group)
                    return [tensor]
                c.same(f"broadcast of {dtype} {shape} from {root}", call)


def reduce(c):
    for dtype in DTYPES:
        for name in OPERATORS:
            for root in range(c.size):
                def call(group):
                    tensor = c.values((5,), dtype)
                    dist.reduce(tensor, root, getattr(dist.ReduceOp, name), group=group)
                    return [tensor] if c.rank == root else []
                c.same(f"reduce {name} of {dtype} to {root}", call)


def all_gather(c):
    for dtype in DTYPES:
        for shape in SHAPES:
            def call(group):
                outputs = [torch.zeros(shape, dtype=dtype) for _ in range(c.size)]
                dist.all_gather(outputs, c.values(shape, dtype), group=group)
                return outputs
            c.same(f"all_gather of {dtype} {shape}", call)

            def base(group):
                output = torch.zeros((c.size * shape[0],) + shape[1:], dtype=dtype)
                dist.all_gather_into_tensor(output, c.values(shape, dtype), group=group)
                return [output]
            if shape:
                c.same(f"all_gather_into_tensor of {dtype} {shape}", base)
    outputs = [torch.zeros(rank + 1) for rank in range(c.size)]
    dist.all_gather(outputs, torch.full((c.rank + 1,), float(c.rank)), group=c.groups["lockstep"])
    assert all(torch.equal(outputs[rank], torch.full((rank + 1,), float(rank))) for rank in range(c.size))
    for dtype in (torch.float8_e4m3fn, torch.bool, torch.int16, torch.complex64):
        outputs = [torch.zeros(3, dtype=dtype) for _ in range(c.size)]
        dist.all_gather(outputs, torch.full((3,), 1.0).to(dtype), group=c.groups["lockstep"])
        assert all(torch.equal(one.to(torch.float32).real, torch.ones(3)) for one in outputs), dtype
    c.count += 5

    def managed(group):
        inputs = [c.values((3,), torch.float32), c.values((2, 2), torch.float32, salt=1)]
        outputs = [torch.zeros(3 * c.size), torch.zeros(2 * c.size, 2)]
        with dist._coalescing_manager(group):
            for output, tensor in zip(outputs, inputs):
                dist.all_gather_into_tensor(output, tensor, group=group)
        return outputs
    c.same("_coalescing_manager of all_gather_into_tensor", managed)


def gather(c):
    for dtype in DTYPES:
        for shape in SHAPES:
            for root in range(c.size):
                def call(group):
                    outputs = [torch.zeros(shape, dtype=dtype) for _ in range(c.size)] if c.rank == root else None
                    dist.gather(c.values(shape, dtype), outputs, root, group=group)
                    return outputs or []
                c.same(f"gather of {dtype} {shape} to {root}", call)


def scatter(c):
    for dtype in DTYPES:
        for shape in SHAPES:
            for root in range(c.size):
                def call(group):
                    inputs = [c.values(shape, dtype, salt=i) for i in range(c.size)] if c.rank == root else None
                    output = torch.zeros(shape, dtype=dtype)
                    dist.scatter(output, inputs, root, group=group)
                    return [output]
                c.same(f"scatter of {dtype} {shape} from {root}", call)


def reduce_scatter(c):
    for dtype in DTYPES:
        for name in OPERATORS:
            def call(group):
                inputs = [c.values((3, 2), dtype, salt=i) for i in range(c.size)]
                output = torch.zeros((3, 2), dtype=dtype)
                dist.reduce_scatter(output, inputs, getattr(dist.ReduceOp, name), group=group)
                return [output]
            c.same(f"reduce_scatter {name} of {dtype}", call)

            def base(group):
                output = torch.zeros((3, 2), dtype=dtype)
                dist.reduce_scatter_tensor(output, c.values((3 * c.size, 2), dtype), getattr(dist.ReduceOp, name), group=group)
                return [output]
            c.same(f"reduce_scatter_tensor {name} of {dtype}", base)
    group = c.groups["lockstep"]
    output = torch.zeros(c.rank + 1)
    dist.reduce_scatter(output, [torch.full((rank + 1,), float(rank)) for rank in range(c.size)], group=group)
    assert torch.equal(output, torch.full((c.rank + 1,), float(c.rank * c.size)))
    output = torch.zeros(2, dtype=torch.int32)
    dist.reduce_scatter(output, [torch.full((2,), 1 << c.rank, dtype=torch.int32)] * c.size, dist.ReduceOp.BOR, group=group)
    assert output.tolist() == [(1 << c.size) - 1] * 2
    output = torch.zeros(2)
    dist.reduce_scatter_tensor(output, torch.ones(2 * c.size), dist._make_nccl_premul_sum(0.25), group=group)
    assert output.tolist() == [0.25 * c.size] * 2
    c.count += 3


def all_to_all(c):
    for dtype in DTYPES:
        inputs = [c.values((i + c.rank + 1,), dtype, salt=i) for i in range(c.size)]
        outputs = [torch.zeros(i + c.rank + 1, dtype=dtype) for i in range(c.size)]
        dist.all_to_all(outputs, inputs, group=c.groups["lockstep"])
        for i in range(c.size):
            assert torch.equal(outputs[i], c.values((i + c.rank + 1,), dtype, salt=c.rank, rank=i)), dtype

        def even(group):
            output = torch.zeros((2 * c.size, 3), dtype=dtype)
            dist.all_to_all_single(output, c.values((2 * c.size, 3), dtype), group=group)
            return [output]
        c.same(f"all_to_all_single of {dtype}", even)

        def uneven(group):
            sizes = [i + c.rank for i in range(c.size)]
            output = torch.zeros((sum(sizes), 3), dtype=dtype)
            dist.all_to_all_single(output, c.values((sum(sizes), 3), dtype), sizes, sizes, group=group)
            return [output]
        c.same(f"all_to_all_single with splits of {dtype}", uneven)
        c.count += 1
    # A rank with even slices among ranks with uneven ones.
    sizes = [2] * c.size if c.rank == 0 else [2] + [c.rank + i for i in range(1, c.size)]
    output = torch.zeros(sum(sizes))
    given = (None, None) if c.rank == 0 else (sizes, sizes)
    dist.all_to_all_single(output, torch.full((sum(sizes),), float(c.rank)), *given, group=c.groups["lockstep"])
    assert torch.equal(output, torch.cat([torch.full((size,), float(rank)) for rank, size in enumerate(sizes)]))
    c.count += 1


def messages(c):
    def ring(group, sync):
        output = torch.zeros(4)
        after, before = (c.rank + 1) % c.size, (c.rank - 1) % c.size
        if sync:
            works = [dist.isend(c.values((4,), torch.float32), after, group=group)]
            dist.recv(output, before, group=group)
        else:
            works = [dist.irecv(output, before, group=group), dist.isend(c.values((4,), torch.float32), after, group=group)]
        for work in works:
            work.wait()
        return [output]
    c.same("isend and recv", lambda group: ring(group, True))
    c.same("irecv before isend", lambda group: ring(group, False))

    def batch(group):
        output = torch.zeros(4)
        after, before = (c.rank + 1) % c.size, (c.rank - 1) % c.size
        tensor = c.values((4,), torch.float32)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, after, group), dist.P2POp(dist.irecv, output, before, group)])
        for work in works:
            work.wait()
        return [output]
    c.same("batch_isend_irecv", batch)

    def tags(group):
        outputs = [torch.zeros(2), torch.zeros(2)]
        if c.rank == 0:
            works = [dist.isend(torch.full((2,), float(tag)), 1, group=group, tag=tag) for tag in (5, 7)]
        elif c.rank == 1:
            works = [dist.irecv(outputs[i], 0, group=group, tag=tag) for i, tag in enumerate((7, 5))]
        else:
            works = []
        for work in works:
            work.wait()
        return outputs
    c.same("messages with tags", tags)

    # A message that is pending around a collective, in another order on each rank.
    group = c.groups["lockstep"]
    tensor, summed = torch.zeros(3), torch.ones(1)
    if c.rank == 0:
        work = dist.irecv(tensor, 1, group=group)
        dist.all_reduce(summed, group=group)
        work.wait()
        assert tensor.tolist() == [1.0] * 3
    elif c.rank == 1:
        dist.all_reduce(summed, group=group)
        dist.send(torch.ones(3), 0, group=group)
    else:
        dist.all_reduce(summed, group=group)
    for dtype in DTYPES:
        received = torch.zeros(5, dtype=dtype)
        if c.rank == 0:
            dist.send(torch.arange(5).to(dtype), 1, group=group)
        elif c.rank == 1:
            assert dist.recv(received, 0, group=group) == 0 and torch.equal(received, torch.arange(5).to(dtype))
    c.count += 1 + len(DTYPES)


def any_source(c):
    def call(group):
        if c.rank != 0:
            dist.send(torch.full((3,), float(c.rank)), 0, group=group)
            return []
        sources, total = [], torch.zeros(3)
        for _ in range(c.size - 1):
            tensor = torch.zeros(3)
            sources.append(dist.recv(tensor, group=group))
            assert tensor.tolist() == [float(sources[-1])] * 3, (tensor, sources)
            total += tensor
        return [total, torch.tensor(sorted(sources))]
    c.same("recv from any source", call)


def objects(c):
    group = c.groups["lockstep"]
    gathered = [None] * c.size
    dist.all_gather_object(gathered, {"rank": c.rank, "text": "x" * c.rank}, group=group)
    assert [one["rank"] for one in gathered] == list(range(c.size))
    sent = [c.rank, "a"] if c.rank == 0 else [None, None]
    dist.broadcast_object_list(sent, 0, group=group)
    assert sent == [0, "a"]
    received = [None]
    dist.scatter_object_list(received, [[i] for i in range(c.size)] if c.rank == 0 else None, 0, group=group)
    assert received == [[c.rank]]
    collected = [None] * c.size if c.rank == 1 else None
    dist.gather_object(c.rank, collected, 1, group=group)
    assert c.rank != 1 or collected == list(range(c.size))
    if c.rank == 0:
        dist.send_object_list(["hello"], 1, group=group)
    elif c.rank == 1:
        received = [None]
        dist.recv_object_list(received, 0, group=group)
        assert received == ["hello"]
    c.count += 5


def works(c):
    group = c.groups["lockstep"]
    tensors = [torch.full((1000,), float(c.rank + i)) for i in range(20)]
    pending = [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]
    futures = [work.get_future() for work in pending]
    seen = []
    chained = futures[3].then(lambda future: seen.append(future.value()[0].sum().item()) or len(seen))
    for i, work in enumerate(pending):
        work.wait()
        assert work.is_completed() and work.is_success()
        assert torch.equal(futures[i].value()[0], tensors[i])
        assert tensors[i][0].item() == sum(rank + i for rank in range(c.size))
        assert torch.equal(work.result()[0], tensors[i])
    assert chained.wait() == 1
    # A callback that waits for the callback of a later operation.
    def nested(_):
        return dist.all_reduce(torch.ones(1), group=group, async_op=True).get_future().wait()[0].item()
    outer = dist.all_reduce(torch.ones(1), group=group, async_op=True).get_future().then(nested)
    assert outer.wait() == c.size
    work = dist.barrier(group=group, async_op=True)
    work.wait()
    c.count += 3


def groups(c):
    for members in ([0, 1], [1, 0], list(range(c.size))):
        group = dist.new_group(members, backend="lockstep")
        if c.rank in members:
            tensor = torch.ones(3)
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [len(members)] * 3
            dist.broadcast(tensor, members[-1], group=group)
            dist.destroy_process_group(group)
    alone = dist.new_group([c.rank], backend="lockstep", use_local_synchronization=True)
    tensor = torch.ones(3)
    dist.all_reduce(tensor, group=alone)
    outputs = [torch.zeros(3)]
    dist.all_gather(outputs, tensor, group=alone)
    dist.reduce_scatter_tensor(torch.zeros(3), tensor, group=alone)
    dist.all_to_all_single(outputs[0], tensor, [3], [3], group=alone)
    assert outputs[0].tolist() == [1.0] * 3
    dist.barrier(group=alone)
    c.count += 4


def arguments(c):
    """Errors that name the operator, the dtype or the rule; the group continues."""
    group = c.groups["lockstep"]

    def refuses(words, call):
        try:
            call()
        except (ValueError, RuntimeError) as error:
            assert all(word in str(error) for word in words), error
            c.count += 1
        else:
            raise AssertionError(f"no error with {words}")

    refuses(["AVG", "Int"], lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32), dist.ReduceOp.AVG, group=group))
    refuses(["BAND", "Float"], lambda: dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND, group=group))
    refuses(["Float8"], lambda: dist.all_reduce(torch.ones(2).to(torch.float8_e4m3fn), group=group))
    refuses(["times as many"], lambda: dist.all_gather_into_tensor(torch.zeros(5), torch.ones(2), group=group))
    refuses(["dtype"], lambda: dist.all_gather([torch.zeros(2, dtype=torch.int32)] * c.size, torch.ones(2), group=group))
    refuses(["all_reduce"], lambda: dist.all_reduce(torch.ones(2 + c.rank), group=group))
    refuses(["all_reduce"], lambda: dist.all_reduce(torch.ones(2, dtype=[torch.int32, torch.int64][c.rank % 2]), group=group))
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=group)
    assert tensor.tolist() == [c.size] * 2


COMPARISONS = [all_reduce, all_reduce_more, all_reduce_sparse, all_reduce_coalesced, broadcast, reduce, all_gather, gather, scatter, reduce_scatter,
               all_to_all, messages, any_source, objects, works, groups, arguments]


def main():
    dist.init_process_group("gloo")
    comparison = Comparison()
    wanted = sys.argv[1:]
    for compare in COMPARISONS:
        if wanted and compare.__name__ not in wanted:
            continue
        before = comparison.count
        compare(comparison)
        if comparison.rank == 0:
            print(f"{compare.__name__}: {comparison.count - before} comparisons", flush=True)
    count = comparison.count
    dist.destroy_process_group()
    if dist.is_initialized():
        raise AssertionError("the group is still there")
    print(f"rank {comparison.rank}: {count} comparisons passed", flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # gloo's threads abort some processes while Python ends: 2 of 12, with PyTorch alone
