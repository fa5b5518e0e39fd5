#include <lockstep/global/tensor_state.h>

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

namespace lockstep::global {
namespace {

void drop(void* state) { std::unique_ptr<TensorState>(static_cast<TensorState*>(state)).reset(); }

}  // namespace

bool is_global(const at::TensorBase& tensor) { return tensor.defined() && tensor.device().type() == kDeviceType; }

TensorState& state_of(const at::TensorBase& tensor) {
  return *static_cast<TensorState*>(tensor.unsafeGetTensorImpl()->unsafe_storage().data_ptr().get_context());
}

at::Tensor make_global(TensorState state, const LogicalShape& shape) {
  auto owned = std::make_unique<TensorState>(std::move(state));
  at::DataPtr pointer(nullptr, owned.get(), &drop, c10::Device(kDeviceType, 0));
  [[maybe_unused]] auto* held = owned.release();  // by `pointer`
  auto storage =
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0, std::move(pointer), nullptr, false);
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(std::move(storage)), c10::DispatchKeySet(kDispatchKey),
                                                   c10::scalarTypeToTypeMeta(shape.dtype));
  impl->set_sizes_and_strides(shape.sizes, shape.strides);
  return at::Tensor(std::move(impl));
}

std::vector<std::int64_t> row_major_strides(c10::IntArrayRef sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= std::max<std::int64_t>(sizes[dim], 1);
  }
  return strides;
}

}  // namespace lockstep::global
