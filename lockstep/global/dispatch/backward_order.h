// The order in which the operators of a backward are called, which must be the same on all ranks.
#pragma once

namespace lockstep::global {

/// From now on a backward of several results at once begins on libtorch's thread for global tensors, where all the rest
/// of it runs. As it is, the caller's thread hands one result after the other to that thread, which begins with
/// whatever it has by then: ranks would come to their collectives in different orders.
/// Without effect where a program has an autograd engine of its own.
void order_backward();

}  // namespace lockstep::global
