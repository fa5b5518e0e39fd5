// SHA-256 of names, shapes and values.
#include <lockstep/base/sha256.h>
#include <lockstep/state/named_tensors.h>
#include <lockstep/state/tensor_hash.h>

#include <fmt/ranges.h>
#include <torch/torch.h>

#include <span>

namespace lockstep::state {

std::string text_of_form(const at::Tensor& tensor) {
  return fmt::format("{} [{}]", c10::toString(tensor.scalar_type()),
                     fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ","));
}

void add_to_hash(Sha256& hash, const std::string& name, const at::Tensor& tensor) {
  hash.update(fmt::format("{} {}\n", name, text_of_form(tensor)));
  const auto values = tensor.detach().cpu().contiguous();
  hash.update(std::as_bytes(std::span(static_cast<const char*>(values.data_ptr()), values.nbytes())));
}

std::string sha256_of(const NamedTensors& tensors) {
  Sha256 hash;
  for (const auto& [name, tensor] : tensors) add_to_hash(hash, name, tensor);
  return hash.hex();
}

}  // namespace lockstep::state
