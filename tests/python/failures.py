#!/usr/bin/env python3
"""One rank of a job in which something goes wrong; test_backend.py starts it. The first argument is the name of what happens.

Prints one line: "ok" and what the rank has seen, or raises.
"""
import atexit
import datetime
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

import lockstep  # noqa: F401: it registers the backend


def init():
    dist.init_process_group("lockstep", timeout=datetime.timedelta(seconds=60))
    dist.all_reduce(torch.ones(1))
    return dist.get_rank()


def impatient_group():
    group = dist.new_group(backend="lockstep", timeout=datetime.timedelta(seconds=2))
    dist.barrier(group=dist.group.WORLD)
    return group


def expect_error(call, *words, within=30.0):
    begin = time.time()
    try:
        call()
    except (RuntimeError, ValueError) as error:
        took, text = time.time() - begin, str(error)
        assert took < within, f"the error came after {took:.1f} s: {text}"
        assert all(word in text for word in words), text
        print(f"ok after {took:.2f} s: {text.splitlines()[0]}", flush=True)
        return
    raise AssertionError("no error")


def killed():
    if init() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    expect_error(lambda: dist.all_reduce(torch.ones(1000000)), "rank 1", "ended")
    expect_error(lambda: dist.barrier())


def killed_while_receiving():
    if init() == 1:
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    expect_error(lambda: dist.recv(torch.ones(3), 1), "rank 1")


def ended_before_the_first_collective():
    """The group is made by init_process_group, and its ranks meet in the background."""
    dist.init_process_group("lockstep")
    if dist.get_rank() == 1:
        os._exit(3)
    expect_error(lambda: dist.all_reduce(torch.ones(3)), "rank 1", "ended")


def left_before_the_first_collective():
    rank = int(os.environ["RANK"])
    store = dist.FileStore(os.path.join(os.environ["TMPDIR"], "store"), 2)
    if rank == 1:
        store.wait(["left"])
    dist.init_process_group("lockstep", store=store, rank=rank, world_size=2)
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        dist.distributed_c10d._abort_process_group()
        expect_error(work.wait, "aborted")
        store.set("left", "1")
        store.wait(["seen"])
    else:
        expect_error(lambda: dist.all_reduce(torch.ones(3)), "rank 0", "gave up", "destroyed")
        store.set("seen", "1")


def other_world_size():
    if os.environ["RANK"] == "1":
        os.environ["WORLD_SIZE"] = "3"
    dist.init_process_group("lockstep", timeout=datetime.timedelta(seconds=60))
    expect_error(lambda: dist.all_reduce(torch.ones(3)), "WORLD_SIZE")


def rank_outside():
    store = dist.HashStore()
    expect_error(lambda: dist.init_process_group("lockstep", store=store, rank=5, world_size=2), "WORLD_SIZE - 1")


def forked_with_pending_work():
    rank = init()
    tensor = torch.zeros(3)
    work = dist.irecv(tensor, 1 - rank)
    child = os.fork()
    if child == 0:
        try:
            work.wait()
        except RuntimeError as error:
            os._exit(0 if "forked" in str(error) else 3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    if rank == 0:
        expect_error(lambda: work.wait(datetime.timedelta(seconds=1)), "recv", "1 s")
        dist.send(torch.ones(3), 1)
        work.wait()
    else:
        work.wait()
        dist.send(torch.ones(3), 0)
    assert tensor.tolist() == [1.0] * 3
    dist.destroy_process_group()
    print("ok")


def raises():
    if init() == 1:
        raise KeyError("an error of the program")
    expect_error(lambda: dist.all_reduce(torch.ones(3)), "rank 1")


def raises_and_destroys():
    """As programs with `finally: destroy_process_group()` end; this rank needs longer than the others to end."""
    rank = init()
    try:
        if rank == 1:
            atexit.register(time.sleep, 1)
            raise KeyError("batch 7 has no label")
        dist.all_reduce(torch.ones(3))
    finally:
        dist.destroy_process_group()


def other_collective():
    rank = init()
    tensor = torch.ones(3)
    expect_error(lambda: dist.broadcast(tensor, 0) if rank == 1 else dist.all_reduce(tensor), "broadcast", "all_reduce")
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2.0] * 3
    dist.destroy_process_group()


def other_shape():
    rank = init()
    expect_error(lambda: dist.all_reduce(torch.ones(3 + rank)), "[3]", "[4]")
    expect_error(lambda: dist.broadcast(torch.ones(3, dtype=[torch.float32, torch.int64][rank]), 0), "float32", "int64")
    dist.destroy_process_group()


def other_shape_of_broadcast():
    rank = init()
    expect_error(lambda: dist.broadcast(torch.ones([(2, 3), (3, 2)][rank]), 0), "[2, 3]", "[3, 2]")
    dist.destroy_process_group()


def other_splits():
    """A rank expects another size than is sent to it, or another dtype; the group goes on."""
    rank = init()

    def exchange(sends, expects, dtype=torch.float32):
        inputs, outputs = torch.full((sum(sends),), float(rank)).to(dtype), torch.zeros(sum(expects), dtype=dtype)
        dist.all_to_all_single(outputs, inputs, expects, sends)
        return outputs.tolist()

    expect_error(lambda: exchange([[1, 3], [3, 1]][rank], [[1, 4], [3, 1]][rank]),
                 "rank 1 sends 3 elements to rank 0, which expects 4")
    expect_error(lambda: exchange([2, 2], [2, 2], [torch.float32, torch.int32][rank]), "all_to_all_single", "Float", "Int")
    expect_error(lambda: dist.all_to_all([torch.ones(1), torch.ones(2)], [torch.ones(1), torch.ones(2 - rank)]), "all_to_all", "elements")
    assert exchange([1, 2], [[1, 1], [2, 2]][rank]) == [[0.0, 1.0], [0.0, 0.0, 1.0, 1.0]][rank]
    dist.destroy_process_group()
    print("ok")


def other_size_of_message():
    rank = init()
    if rank == 0:
        dist.send(torch.ones(4), 1)
        dist.send(torch.ones(3, dtype=torch.int32), 1)
    else:
        expect_error(lambda: dist.recv(torch.ones(3), 0), "16 bytes", "12")
        expect_error(lambda: dist.recv(torch.ones(3), 0), "Int", "Float")
    tensor = torch.full((3,), 5.0)
    dist.recv(tensor, 0) if rank == 1 else dist.send(tensor, 1)
    assert tensor.tolist() == [5.0] * 3
    dist.destroy_process_group()
    print("ok")


def too_late():
    rank = init()
    group = impatient_group()
    if rank == 0:
        expect_error(lambda: dist.all_reduce(torch.ones(3), group=group), "rank 1")
    dist.barrier()  # the failure of one group leaves the others
    print("ok")


def message_too_late():
    rank = init()
    group = impatient_group()
    if rank == 0:
        expect_error(lambda: dist.recv(torch.ones(3), 1, group=group), "2.0 s")
    dist.barrier()
    print("ok")


def destroyed_while_pending():
    rank = init()
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        begin = time.time()
        dist.destroy_process_group()
        assert time.time() - begin < 15
        expect_error(work.wait, "destroyed")
    else:
        time.sleep(14)
        expect_error(lambda: dist.all_reduce(torch.ones(3)), "rank 0")


def aborted():
    rank = init()
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        dist.distributed_c10d._abort_process_group()
        expect_error(work.wait, "aborted")
    else:
        time.sleep(1)
        expect_error(lambda: dist.all_reduce(torch.ones(3)), "aborted")


def exit_without_destroy():
    rank = init()
    dist.all_reduce(torch.ones(1000), async_op=True)
    dist.isend(torch.ones(3), 1) if rank == 0 else dist.irecv(torch.ones(3), 0)
    print("ok")


def exit_at_once():
    dist.init_process_group("lockstep")
    print("ok")


def forked():
    rank = init()
    child = os.fork()
    if child == 0:
        try:
            dist.all_reduce(torch.ones(1))
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    torch.ones(2, requires_grad=True).sum().backward()
    child = os.fork()
    if child == 0:
        torch.ones(2, requires_grad=True).sum().backward()  # as in a worker of a DataLoader
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    child = os.fork()
    if child == 0:
        sys.exit(0)  # with the handlers of Python's exit
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == 2 and rank in (0, 1)
    dist.destroy_process_group()
    print("ok")


def again():
    for number in range(5):
        dist.init_process_group("lockstep")
        tensor = torch.full((2,), float(number))
        if number != 2:
            dist.all_reduce(tensor)
            assert tensor.tolist() == [2.0 * number] * 2
        dist.destroy_process_group()
    print("ok")


def threads():
    rank = init()
    groups = [dist.new_group(backend="lockstep") for _ in range(4)]
    failures = []

    def use(group, index):
        try:
            for i in range(200):
                tensor = torch.full((100,), float(i + index))
                dist.all_reduce(tensor, group=group, async_op=i % 3 == 0) and None
        except Exception as error:  # noqa: BLE001: reported below
            failures.append(error)

    running = [threading.Thread(target=use, args=(group, i)) for i, group in enumerate(groups)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not failures, failures
    dist.barrier()
    dist.destroy_process_group()
    print("ok", rank)


def environment():
    """Changes of the environment while groups, whose ranks meet in another thread, are made: setenv moves what getenv reads."""
    rank = init()
    for i in range(200):
        dist.new_group([rank], use_local_synchronization=True)
        for j in range(300):
            os.environ[f"LOCKSTEP_TEST_{j}"] = "x" * (i + j)
        for j in range(300):
            del os.environ[f"LOCKSTEP_TEST_{j}"]
    dist.barrier()
    dist.destroy_process_group()
    print("ok", rank)


def memory(calls=300, groups=6):
    """Bytes of this process after 10 rounds of collectives and groups, beside those after the second."""
    init()

    def resident():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def counts():
        return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))

    tensor = torch.ones(1000)
    seen = []
    for _ in range(10):
        for i in range(calls):
            work = dist.all_reduce(tensor, async_op=i % 2 == 0)
            if work is not None:
                work.get_future().then(lambda future: None)
                work.wait()
        for _ in range(groups):
            group = dist.new_group(backend="lockstep")
            dist.all_reduce(tensor, group=group)
            dist.send(tensor, 1, group=group) if dist.get_rank() == 0 else dist.recv(tensor, 0, group=group)
            dist.destroy_process_group(group)
        seen.append((resident() >> 10,) + counts())
        tensor.fill_(1)
    print("ok", seen, flush=True)
    assert seen[-1][0] - seen[1][0] < 16 << 10, seen
    assert seen[-1][1] <= seen[1][1] + 2 and seen[-1][2] <= seen[1][2] + 4, seen
    dist.destroy_process_group()


def memory_long():
    memory(calls=1000, groups=20)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
