#include <lockstep/mirrored/small_tensors.h>

#include <ATen/Dispatch.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>

namespace lockstep::mirrored {
namespace {

constexpr std::size_t kSmallBytes = 64 << 10;

template <typename Use>
void with_elements(const at::Tensor& tensor, const Use& use) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, tensor.scalar_type(), "with_elements",
                                  [&] { use(tensor.data_ptr<scalar_t>()); });
}

}  // namespace

void copy_into(const at::Tensor& to, const at::Tensor& from) {
  const bool bytewise = to.nbytes() <= kSmallBytes && to.is_cpu() && from.is_cpu() &&
                        to.scalar_type() == from.scalar_type() && to.strides() == from.strides() &&
                        to.sizes() == from.sizes() && to.is_non_overlapping_and_dense() && !from.is_conj() &&
                        !from.is_neg();
  if (!bytewise) {
    to.copy_(from);
  } else if (to.nbytes() > 0) {
    std::memcpy(to.data_ptr(), from.data_ptr(), to.nbytes());
  }
}

void set_all(const at::Tensor& tensor, double value) {
  if (!tensor.is_cpu()) {
    tensor.fill_(value);
    return;
  }
  with_elements(tensor, [&](auto* data) {
    using Element = std::remove_pointer_t<decltype(data)>;
    std::fill_n(data, tensor.numel(), static_cast<Element>(value));
  });
}

double value_at(const at::Tensor& tensor, std::int64_t index) {
  if (!tensor.is_cpu()) return tensor[index].item<double>();
  double value = 0;
  with_elements(tensor, [&](const auto* data) { value = static_cast<double>(data[index]); });
  return value;
}

void set_value(const at::Tensor& tensor, std::int64_t index, double value) {
  if (!tensor.is_cpu()) {
    tensor[index].fill_(value);
    return;
  }
  with_elements(tensor, [&](auto* data) { data[index] = static_cast<std::remove_pointer_t<decltype(data)>>(value); });
}

}  // namespace lockstep::mirrored
