#include <lockstep/global/tensor_state.h>

#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

namespace lockstep::global {
namespace {

/// No bytes, but the state: one allocation for both.
class GlobalStorage final : public c10::StorageImpl {
 public:
  explicit GlobalStorage(TensorState of_tensor)
      : StorageImpl(use_byte_size_t(), 0, at::DataPtr(nullptr, c10::Device(kDeviceType, 0)), nullptr, false),
        state(std::move(of_tensor)) {}

  TensorState state;
};

at::Tensor make(TensorState state, const LogicalShape& shape, caffe2::TypeMeta dtype) {
  auto impl = c10::make_intrusive<c10::TensorImpl>(c10::Storage(c10::make_intrusive<GlobalStorage>(std::move(state))),
                                                   c10::DispatchKeySet(kDispatchKey), dtype);
  impl->set_sizes_and_strides(shape.sizes, shape.strides);
  if (shape.offset != 0) impl->set_storage_offset(shape.offset);
  return at::Tensor(std::move(impl));
}

}  // namespace

TensorState& state_of(const at::TensorBase& tensor) {
  return static_cast<GlobalStorage*>(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl())->state;
}

at::Tensor make_global(TensorState state, const LogicalShape& shape) {
  const auto dtype = state.local.dtype();
  return make(std::move(state), shape, dtype);
}

at::Tensor make_without_memory(TensorState state, const LogicalShape& shape) {
  return make(std::move(state), shape, c10::scalarTypeToTypeMeta(shape.dtype));
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

std::vector<std::int64_t> strides_in(c10::MemoryFormat format, c10::IntArrayRef sizes) {
  if (format == c10::MemoryFormat::ChannelsLast && sizes.size() == 4) return c10::get_channels_last_strides_2d(sizes);
  if (format == c10::MemoryFormat::ChannelsLast3d && sizes.size() == 5) return c10::get_channels_last_strides_3d(sizes);
  return row_major_strides(sizes);
}

}  // namespace lockstep::global
