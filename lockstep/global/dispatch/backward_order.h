// The order of the operators of a backward, which must be the same on all ranks.
#pragma once

namespace lockstep::global {

/// From now on a backward that begins with global tensors, or comes to them, runs on the thread that calls it. libtorch
/// has a thread for each device but the CPU and hands work to it while it works: with several results, or where a
/// gradient is undefined, ranks would come to their collectives in different orders. The hand-over would also cost more
/// than an operator. One thread at a time may run such a backward. Without effect where a program has an autograd
/// engine of its own.
void order_backward();

}  // namespace lockstep::global
