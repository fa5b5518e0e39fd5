// The slices of a tensor that the ranks of a host send over the network in parallel.
#pragma once

#include <lockstep/comm/hierarchy/engines.h>

#include <ATen/core/Tensor.h>

#include <vector>

namespace lockstep::detail::hierarchy {

/// The parts of `flat` (one dimension) that the columns carry, part i by column i: one each, of whole cache lines, or
/// a single one for the leaders, where there is but one column or too little to be worth more than one message.
std::vector<at::Tensor> slices_of(const Hosts& hosts, const at::Tensor& flat);

/// Broadcasts every slice, on this host, from the rank that carries it to the others.
Backend::Pending hand_out(const Engines& engines, const std::vector<at::Tensor>& slices, const Call& call);

}  // namespace lockstep::detail::hierarchy
