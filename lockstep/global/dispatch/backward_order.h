// The order of the operators of a backward, which must be the same on all ranks.
#pragma once

namespace lockstep::global {

/// From now on a backward with global tensors runs on the thread that calls it. libtorch has one thread for each device
/// other than the CPU, and moves work between threads: with several results, or with undefined gradients, ranks would
/// execute their collectives in different orders. Moving work between threads would also cost more than an operator.
/// One thread at a time may run such a backward. No effect if the program has an autograd engine of its own.
void order_backward();

}  // namespace lockstep::global
