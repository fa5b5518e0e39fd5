// Views of a flat buffer that keep a tensor's strides, and buffers in memory that the group allocates.
#include <lockstep/mirrored/flat_memory.h>

#include <lockstep/comm/collectives.h>

#include <c10/util/strides.h>
#include <torch/torch.h>

namespace lockstep::mirrored {

at::Tensor group_memory(const Group& group, std::int64_t elements, int dtype, const at::Tensor& like) {
  if (!like.defined() || like.is_cpu()) return allocate(group, elements, dtype);
  return at::empty({elements}, like.options().dtype(static_cast<at::ScalarType>(dtype)).requires_grad(false));
}

at::Tensor tensor_in(const at::Tensor& flat, std::int64_t offset, const at::Tensor& like) {
  at::Tensor tensor = at::empty({0}, flat.options());
  return tensor.set_(flat.storage(), flat.storage_offset() + offset, like.sizes(),
                     like.is_non_overlapping_and_dense() ? like.strides() : c10::contiguous_strides(like.sizes()));
}

at::Tensor laid_out_as(const at::Tensor& tensor, const at::Tensor& like) {
  if (tensor.strides() == like.strides()) return tensor;
  return at::empty_strided(like.sizes(), like.strides(), tensor.options()).copy_(tensor);
}

at::Tensor stretch_of(const at::Tensor& tensor, std::int64_t begin, std::int64_t elements) {
  at::Tensor stretch = at::empty({0}, tensor.options());
  return stretch.set_(tensor.storage(), tensor.storage_offset() + begin, {elements}, {1});
}

}  // namespace lockstep::mirrored
