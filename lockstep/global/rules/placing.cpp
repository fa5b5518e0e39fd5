// Signatures from named inputs, and the broadcast shape of several tensors.
#include <lockstep/global/rules/placing.h>

#include <algorithm>

#include <stdexcept>

namespace lockstep::global {

Signature placing(const OpCall& call, std::initializer_list<PlacedInput> inputs, std::vector<Placement> outputs) {
  Signature signature = replicated(call);
  for (const auto& each : inputs) {
    if (call.has(each.argument)) signature.inputs[call.tensor(each.argument)] = each.placement;
  }
  signature.outputs = std::move(outputs);
  return signature;
}

Signature placing_all(const OpCall& call, const Placement& placement) {
  Signature signature = replicated(call);
  std::fill(signature.inputs.begin(), signature.inputs.end(), placement);
  std::fill(signature.outputs.begin(), signature.outputs.end(), placement);
  return signature;
}

TensorInfo broadcast(const OpCall& call, std::size_t first) {
  TensorInfo shape = call.tensors[first];
  for (std::size_t i = first + 1; i < call.tensors.size(); ++i) {
    const auto& other = call.tensors[i].sizes;
    if (!call.tensors[i].defined) continue;
    if (other.size() > shape.sizes.size())
      shape.sizes.insert(shape.sizes.begin(), other.size() - shape.sizes.size(), 1);
    const std::size_t added = shape.sizes.size() - other.size();
    for (std::size_t dim = 0; dim < other.size(); ++dim) {
      if (other[dim] == 1) continue;
      auto& size = shape.sizes[added + dim];
      if (size != 1 && size != other[dim]) throw std::out_of_range("sizes that cannot be broadcast");
      size = other[dim];
    }
  }
  return shape;
}

}  // namespace lockstep::global
