// Views where memory allows them, and copies elsewhere.
#include <apps/python/flat.h>

#include <ATen/ATen.h>

#include <algorithm>

namespace lockstep::python {
namespace {

bool known_to_lockstep(at::ScalarType dtype) {
  switch (dtype) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kByte:
    case at::kChar:
    case at::kShort:
    case at::kInt:
    case at::kLong:
    case at::kBool:
    case at::kComplexFloat:
    case at::kComplexDouble: return true;
    default: return false;
  }
}

}  // namespace

at::Tensor flat(const at::Tensor& tensor) {
  auto memory = tensor.contiguous().resolve_conj().resolve_neg().view({-1});
  return known_to_lockstep(memory.scalar_type()) ? memory : memory.view(at::kByte);
}

void FlatOutput::store() {
  if (memory_.data_ptr() == tensor_.data_ptr()) return;
  store_slices(memory_, {tensor_});
}

at::Tensor joined(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> pieces;
  pieces.reserve(tensors.size());
  for (const auto& tensor : tensors) pieces.push_back(flat(tensor));
  return at::cat(pieces);
}

void store_slices(const at::Tensor& memory, const std::vector<at::Tensor>& tensors) {
  std::int64_t begin = 0;
  for (auto tensor : tensors) {
    const auto elements = tensor.numel() * tensor.element_size() / memory.element_size();
    auto piece = memory.narrow(0, begin, elements);
    if (piece.scalar_type() != tensor.scalar_type()) piece = piece.view(tensor.scalar_type());
    tensor.copy_(piece.view(tensor.sizes()));
    begin += elements;
  }
}

bool same_sizes(const std::vector<at::Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const at::Tensor& tensor) { return tensor.numel() == tensors.front().numel(); });
}

}  // namespace lockstep::python
